#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/pool.hpp"
#include "checkpoint/source.hpp"
#include "forward/run.hpp"
#include "model/model.hpp"
#include "support/temp_dir.hpp"
#include "tokenizer/vocabulary.hpp"

namespace {

/// Finds the largest logit of the last position.
class LastArgmax final : public attnctl::Observer {
 public:
  [[nodiscard]] attnctl::Needs needs() const override {
    attnctl::Needs needs;
    needs.logits = true;
    return needs;
  }
  void begin(const attnctl::Model& /*model*/, const attnctl::Batch& /*batch*/) override {}
  void panel(const attnctl::AttentionPanel& /*panel*/) override {}
  void logits(std::size_t /*sequence*/, std::size_t /*first_query*/,
              attnctl::MatrixView<const float> values) override {
    const auto last = values.row(values.rows - 1);
    token = std::max_element(last.begin(), last.end()) - last.begin();
  }
  std::int64_t token = 0;
};

/// Joins tokens to text. Byte tokens such as "<0x0A>" become bytes, the metaspace becomes a space, and the
/// space before the first word is removed.
std::string text_of(const attnctl::Vocabulary& vocabulary, const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) {
    if (vocabulary.is_special(id)) continue;
    std::string piece(vocabulary.token(id).value());
    if (piece.size() == 6 && piece.starts_with("<0x")) {
      unsigned byte = 0;
      std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
      piece = static_cast<char>(byte);
    }
    const std::string metaspace = "\u2581";
    for (std::size_t at = piece.find(metaspace); at != std::string::npos; at = piece.find(metaspace)) {
      piece.replace(at, metaspace.size(), " ");
    }
    text += piece;
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

}  // namespace

TEST_CASE("200 steps of greedy decoding give the story of the reference") {
  const std::filesystem::path directory =
      std::filesystem::path(ATTNCTL_SHARED_DIR) / "models" / "stories260K";
  if (!std::filesystem::exists(directory)) {
    MESSAGE("skipped: no shared models at " << directory.string());
    return;
  }
  attnctl::Warnings warnings;
  const attnctl::Model model =
      attnctl::Model::bind(attnctl::open_model_source(directory.string(), {}, warnings), warnings);
  const attnctl::Vocabulary vocabulary = attnctl::read_vocabulary(directory);
  attnctl::Pool pool(2);
  attnctl::RunContext context{.pool = pool, .warnings = warnings};
  attnctl::Batch batch;
  std::vector<std::int64_t>& ids = batch.sequences.emplace_back().ids;
  ids = {vocabulary.id("<s>").value()};
  for (int step = 0; step < 200; ++step) {
    LastArgmax last;
    attnctl::Observer* const observers[] = {&last};
    run_forward(model, batch, attnctl::Selection::all(model.config()), observers, context);
    ids.push_back(last.token);
  }
  std::string want = attnctl::test::slurp(directory / "golden.txt");
  while (want.ends_with('\n')) want.pop_back();
  CHECK(text_of(vocabulary, ids) == want);
}
