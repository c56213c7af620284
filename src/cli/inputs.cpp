#include "cli/inputs.hpp"

#include "attnctl/base/error.hpp"
#include "attnctl/base/mapped_file.hpp"
#include "attnctl/input/sequences.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

#include "cli/arrays_in.hpp"

namespace attnctl::cli {
namespace {

constexpr std::size_t kInputLimit = std::size_t{1} << 30;

InputFormat format_of(const std::string& path, const std::string& given) {
  const std::string extension = path == "-" ? "." + given : std::filesystem::path(path).extension().string();
  if (extension == ".json") return InputFormat::json;
  if (extension == ".jsonl") return InputFormat::jsonl;
  if (path == "-") fail(Status::usage, "--input -: need --input-format json or jsonl");
  fail(Status::bad_input,
       "{}: unsupported input \"{}\"; supported: .jsonl, .json (with \"tokens\" or \"ids\")", escaped(path),
       escaped(extension));
}

void read_file_item(const InputItem& item, const InputOptions& options, const Vocabulary& vocabulary,
                    Batch& batch) {
  const InputFormat format = format_of(item.value, options.input_format);
  const bool standard_input = item.value == "-";
  const std::string text = standard_input ? read_descriptor(STDIN_FILENO, "standard input", kInputLimit)
                                          : read_file(item.value, kInputLimit);
  const std::size_t before = batch.sequences.size();
  read_sequences(text, format, standard_input ? "standard input" : item.value, vocabulary, batch);
  if (batch.sequences.size() == before) fail(Status::bad_input, "{}: holds no input", escaped(item.value));
}

/// --embeddings with the --keys and --values that go with it: a sequence for each item of the batch axis.
void read_embeddings_item(const std::string& path, const std::optional<std::string>& keys,
                          const std::optional<std::string>& values, Batch& batch) {
  std::vector<OwnedMatrix<float>> queries = read_embeddings(path);
  const auto beside = [&](const std::optional<std::string>& other) {
    std::vector<OwnedMatrix<float>> items;
    if (!other) return items;
    items = read_embeddings(*other);
    if (items.size() != queries.size()) {
      fail(Status::bad_input, "{}: a batch of {}, need {} as in {}", escaped(*other), items.size(),
           queries.size(), escaped(path));
    }
    return items;
  };
  std::vector<OwnedMatrix<float>> key_items = beside(keys);
  std::vector<OwnedMatrix<float>> value_items = beside(values);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    Sequence sequence;
    sequence.embeddings = std::move(queries[i]);
    if (!key_items.empty()) sequence.key_embeddings = std::move(key_items[i]);
    if (!value_items.empty()) sequence.value_embeddings = std::move(value_items[i]);
    const std::size_t value_rows = sequence.value_embeddings.rows();
    if (value_rows > 0 && value_rows != sequence.keys()) {
      fail(Status::bad_input, "{}: {} values, need {}, one for each key", escaped(*values), value_rows,
           sequence.keys());
    }
    batch.sequences.push_back(std::move(sequence));
  }
}

void apply_masks(const InputOptions& options, Batch& batch) {
  if (options.mask == "none") {
    for (Sequence& sequence : batch.sequences) sequence.unmasked = true;
  } else if (options.mask == "causal") {
    for (Sequence& sequence : batch.sequences)
      sequence.mask = causal_mask(sequence.queries(), sequence.keys());
  } else if (options.mask) {
    read_score_masks(*options.mask, batch);
  }
  if (options.key_mask) read_key_masks(*options.key_mask, batch);
}

}  // namespace

std::vector<std::filesystem::path> input_files(const InputOptions& options) {
  std::vector<std::filesystem::path> files;
  for (const InputItem& item : options.items) {
    if (item.kind != InputItem::Kind::ids && item.value != "-") files.emplace_back(item.value);
  }
  files.insert(files.end(), options.keys.begin(), options.keys.end());
  files.insert(files.end(), options.values.begin(), options.values.end());
  if (options.mask && options.mask != "causal" && options.mask != "none") files.emplace_back(*options.mask);
  if (options.key_mask) files.emplace_back(*options.key_mask);
  return files;
}

Batch read_inputs(const InputOptions& options, const Vocabulary& vocabulary) {
  if (options.items.empty()) {
    fail(Status::usage, "no input: give --ids, --input or --embeddings (--input - reads standard input)");
  }
  const auto is = [](InputItem::Kind kind, std::string_view value = {}) {
    return [=](const InputItem& item) { return item.kind == kind && (value.empty() || item.value == value); };
  };
  if (std::count_if(options.items.begin(), options.items.end(), is(InputItem::Kind::file, "-")) > 1) {
    fail(Status::usage, "--input -: standard input can be read only once");
  }
  const auto embeddings =
      std::count_if(options.items.begin(), options.items.end(), is(InputItem::Kind::embeddings));
  if (options.keys.size() > static_cast<std::size_t>(embeddings) ||
      options.values.size() > options.keys.size()) {
    fail(Status::usage, "--keys and --values go with --embeddings, one for each, and --values with --keys");
  }
  Batch batch;
  std::size_t embedding_items = 0;
  const auto at = [](const std::vector<std::string>& list, std::size_t i) {
    return i < list.size() ? std::optional(list[i]) : std::nullopt;
  };
  for (const InputItem& item : options.items) {
    switch (item.kind) {
      case InputItem::Kind::ids:
        batch.sequences.emplace_back().ids = parse_ids(item.value);
        break;
      case InputItem::Kind::file:
        read_file_item(item, options, vocabulary, batch);
        break;
      case InputItem::Kind::embeddings:
        read_embeddings_item(item.value, at(options.keys, embedding_items),
                             at(options.values, embedding_items), batch);
        ++embedding_items;
        break;
    }
  }
  finish_batch(batch, vocabulary);
  apply_masks(options, batch);
  return batch;
}

}  // namespace attnctl::cli
