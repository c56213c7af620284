#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/shown.hpp"
#include "formats/json/json_events.hpp"
#include "tokenizer/files/file_layouts.hpp"
#include "tokenizer/files/vocabulary_check.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kFileLimit = std::size_t{256} << 20U;

/// {"token": id, ...}
class VocabularyJson final : public JsonEvents {
 public:
  explicit VocabularyJson(TokenizerFile& file) : file_(file) {}

 private:
  void on_begin(Container container) override {
    if (depth() > 0 || container != Container::object) refuse("need an object of ids");
  }
  void on_end(Container /*container*/) override {}
  void on_key(std::string& key) override { file_.vocabulary.push_back({std::move(key), 0, 0}); }
  void on_scalar(const JsonScalar& scalar) override {
    const auto* id = std::get_if<std::uint64_t>(&scalar);
    if (depth() == 0 || id == nullptr || *id > kLargestTokenId) {
      refuse(fmt::format("got {}, need an id, an integer from 0 to {}", describe(scalar), kLargestTokenId));
    }
    file_.vocabulary.back().id = static_cast<std::int32_t>(*id);
  }

  TokenizerFile& file_;
};

/// "left right" on each line; lines that begin with #version are skipped.
void read_merges_txt(TokenizerFile& file, const std::filesystem::path& path) {
  const std::string text = read_file(path, kFileLimit, Status::bad_input);
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      fail(Status::bad_input, "{}: line {}: got {}, need two tokens with a space between",
           escaped(path.string()), number, in_quotes(line));
    }
    file.merges.add(line.substr(0, space), line.substr(space + 1));
  }
}

/// Does the model put a token before the text and one behind it that are not those of a generator?
bool has_frame(const TokenizerFile& file, const TokenizerConfig& config) {
  if (config.options().has("tokenizer_class")) {
    return !config.options().string("tokenizer_class").starts_with("GPT2Tokenizer");
  }
  const TokenTable table(file.vocabulary);
  const auto has = [&](std::string_view token) { return table.find(token) >= 0; };
  return has("<s>") && has("</s>") && has("<mask>") && !has("<|endoftext|>");
}

void set_defaults(TokenizerConfig& config, bool framed) {
  if (!framed) {
    for (const char* role : {"bos_token", "eos_token", "unk_token"})
      config.set_default(role, "<|endoftext|>");
    return;
  }
  config.set_default("bos_token", "<s>");
  config.set_default("eos_token", "</s>");
  config.set_default("sep_token", "</s>");
  config.set_default("cls_token", "<s>");
  config.set_default("unk_token", "<unk>");
  config.set_default("pad_token", "<pad>");
  config.set_default("mask_token", "<mask>");
}

void assemble(TokenizerFile& file, const TokenizerConfig& config, bool framed) {
  const PartConfig options = config.options();
  const bool space = options.boolean("add_prefix_space", false);
  file.parts["pre_tokenizer"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", space}, {"trim_offsets", true}, {"use_regex", true}};
  file.parts["decoder"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  if (framed) {
    const std::string begin = config.token("cls_token");
    const std::string end = config.token("sep_token");
    file.parts["post_processor"] = {{"type", "RobertaProcessing"},
                                    {"sep", {end, id_of(file, end)}},
                                    {"cls", {begin, id_of(file, begin)}},
                                    {"trim_offsets", options.boolean("trim_offsets", true)},
                                    {"add_prefix_space", space}};
    return;
  }
  const bool begin = options.boolean("add_bos_token", false);
  const bool end = options.boolean("add_eos_token", false);
  file.parts["post_processor"] =
      make_template(file, begin ? config.token("bos_token") : "", end ? config.token("eos_token") : "");
}

}  // namespace

TokenizerFile read_vocab_json(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  TokenizerFile file;
  file.name = escaped(path.string());
  const std::string text = read_file(path, kFileLimit, Status::bad_input);
  VocabularyJson(file).parse({.file = file.name, .text = text});
  file.parts["model"]["type"] = "BPE";
  bool framed = false;
  if (wanted == Wanted::tokenizer) {
    check_class(config, "vocab.json",
                {"GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer",
                 "MvpTokenizer"});
    read_merges_txt(file, path.parent_path() / "merges.txt");
    framed = has_frame(file, config);
    set_defaults(config, framed);
  }
  add_tokens(file, config);
  check_vocabulary(file);
  if (wanted == Wanted::tokenizer) assemble(file, config, framed);
  return file;
}

}  // namespace attnctl
