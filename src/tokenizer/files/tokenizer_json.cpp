#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/mapped_file.hpp"
#include "base/shown.hpp"
#include "formats/json/json_tree.hpp"
#include "tokenizer/files/file_layouts.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/files/vocabulary_check.hpp"
#include "tokenizer/models/score.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kFileLimit = std::size_t{256} << 20U;

/// Takes /model/vocab and /model/merges straight into their containers, and all else into a tree.
// NOLINTNEXTLINE(bugprone-exception-escape): JSON checks itself when it is moved, and does not throw
class TokenizerJson final : public JsonTree {
 public:
  explicit TokenizerJson(TokenizerFile& file) : file_(file) {}
  [[nodiscard]] bool has_vocabulary() const { return has_vocabulary_; }
  [[nodiscard]] bool has_merges() const { return has_merges_; }
  [[nodiscard]] bool is_list() const { return is_list_; }

 private:
  enum class Section { tree, vocabulary, merges };

  void on_begin(Container container) override {
    if (section_ == Section::tree && depth() == 2) section_ = section_that_begins();
    switch (section_) {
      case Section::tree:
        JsonTree::on_begin(container);
        break;
      case Section::vocabulary:
        begin_in_vocabulary(container);
        break;
      case Section::merges:
        begin_in_merges(container);
        break;
    }
  }

  void on_end(Container container) override {
    if (section_ == Section::tree) {
      JsonTree::on_end(container);
    } else if (depth() == 2) {
      section_ = Section::tree;
    } else if (strings_ != 2 || (section_ == Section::vocabulary && !scored_)) {
      refuse(section_ == Section::merges ? "need two tokens" : "need a token and its score");
    }
  }

  void on_key(std::string& key) override {
    if (section_ == Section::vocabulary) {
      file_.vocabulary.push_back({std::move(key), 0, 0});
      return;
    }
    if (depth() == 1) top_key_ = key;
    if (depth() == 2) key_ = key;
    JsonTree::on_key(key);
  }

  void on_scalar(const JsonScalar& scalar) override {
    switch (section_) {
      case Section::tree:
        JsonTree::on_scalar(scalar);
        break;
      case Section::vocabulary:
        is_list_ ? take_piece(scalar) : take_id(scalar);
        break;
      case Section::merges:
        take_merge(scalar);
        break;
    }
  }

  [[nodiscard]] Section section_that_begins() {
    if (top_key_ != "model") return Section::tree;
    if (key_ == "vocab") return Section::vocabulary;
    if (key_ == "merges") return Section::merges;
    return Section::tree;
  }

  void begin_in_vocabulary(Container container) {
    if (depth() == 2) {
      if (std::exchange(has_vocabulary_, true)) refuse("got the key \"vocab\" twice, need different keys");
      is_list_ = container == Container::array;
    } else if (!is_list_) {
      refuse("got an object or array, need a token's id");
    } else if (depth() > 3 || container != Container::array) {
      refuse("need a token and its score");
    }
    strings_ = 0;
    scored_ = false;
  }

  void begin_in_merges(Container container) {
    if (depth() == 2 && std::exchange(has_merges_, true)) {
      refuse("got the key \"merges\" twice, need different keys");
    }
    if (container != Container::array) refuse("got an object, need merges");
    if (depth() > 3) refuse("got an array, need a token");
    strings_ = 0;
  }

  void take_id(const JsonScalar& scalar) {
    const auto* id = std::get_if<std::uint64_t>(&scalar);
    if (id == nullptr || *id > kLargestTokenId) {
      refuse(fmt::format("got {}, need an id, an integer from 0 to {}", describe(scalar), kLargestTokenId));
    }
    file_.vocabulary.back().id = static_cast<std::int32_t>(*id);
  }

  /// An element of ["token", score].
  void take_piece(const JsonScalar& scalar) {
    if (depth() == 4 && ++strings_ == 1) {
      if (const auto* token = std::get_if<std::string*>(&scalar)) {
        if (file_.vocabulary.size() > kLargestTokenId) refuse("got too many tokens");
        const auto id = static_cast<std::int32_t>(file_.vocabulary.size());
        file_.vocabulary.push_back({std::move(**token), id, 0});
        return;
      }
    } else if (depth() == 4 && strings_ == 2) {
      scored_ = std::visit([&](auto value) { return set_score(value); }, scalar);
      if (scored_) return;
    }
    refuse(fmt::format("got {}, need a token and its score", describe(scalar)));
  }
  template <typename Value>
  [[nodiscard]] bool set_score(Value value) {
    if constexpr (std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>) {
      constexpr bool is_real = std::is_floating_point_v<Value>;
      file_.vocabulary.back().score = is_real ? read_score(digits()) : static_cast<double>(value);
      return true;
    } else {
      return false;
    }
  }

  /// "left right", or an element of ["left", "right"].
  void take_merge(const JsonScalar& scalar) {
    const auto* text = std::get_if<std::string*>(&scalar);
    if (text == nullptr) refuse(fmt::format("got {}, need two tokens", describe(scalar)));
    if (depth() == 4) {
      if (++strings_ <= 2) file_.merges.add_side(**text);
      return;
    }
    if ((*text)->starts_with("#version")) return;  // the head of merges.txt, which old files kept
    const std::size_t space = (*text)->find(' ');
    if (space == std::string::npos || (*text)->find(' ', space + 1) != std::string::npos) {
      refuse(fmt::format("got {}, need two tokens with a space between", in_quotes(**text)));
    }
    const std::string_view sides = **text;
    file_.merges.add(sides.substr(0, space), sides.substr(space + 1));
  }

  TokenizerFile& file_;
  Section section_ = Section::tree;
  std::string top_key_, key_;  // at depth 1 and 2
  bool has_vocabulary_ = false;
  bool has_merges_ = false;
  bool is_list_ = false;     // the vocabulary is [["token", score], ...]
  std::size_t strings_ = 0;  // elements of the open pair
  bool scored_ = false;
};

/// Files older than "type" mean the first model whose fields they have.
std::string type_of(const PartConfig& model, const TokenizerJson& json) {
  if (model.has("type")) return model.string("type");
  if (json.has_merges()) return "BPE";
  if (json.is_list()) return "Unigram";
  if (model.has("continuing_subword_prefix") && model.has("max_input_chars_per_word")) return "WordPiece";
  if (model.has("unk_token")) return "WordLevel";
  model.refuse("type", "got nothing, need a model's type, or merges");
}

}  // namespace

TokenizerFile parse_tokenizer_json(std::string name, std::string_view text) {
  TokenizerFile file;
  file.name = std::move(name);
  TokenizerJson json(file);
  file.merges.reserve(text.size() / 2);
  json.parse({.file = file.name, .text = text});
  file.parts = json.take();
  const PartConfig model = file.document().object("model");
  if (!json.has_vocabulary()) model.refuse("vocab", "expected tokens, found nothing");
  const std::string type = type_of(model, json);
  const bool by_id = type == "WordPiece" || type == "BPE" || type == "WordLevel";
  if (by_id && json.is_list()) model.refuse("vocab", "got an array, need an object for " + type);
  if (type == "Unigram" && !json.is_list()) model.refuse("vocab", "got an object, need an array for " + type);
  if (type == "BPE" && !json.has_merges()) model.refuse("merges", "expected merges, found nothing");
  file.parts["model"]["type"] = type;
  return file;
}

TokenizerFile parse_tokenizer_json(const std::filesystem::path& path) {
  const MappedFile mapped(path, Status::bad_input);
  const std::size_t size = mapped.bytes().size();
  std::string name = escaped(path.string());
  if (size > kFileLimit) fail(Status::bad_input, "{}: got {} bytes, need at most {}", name, size, kFileLimit);
  TokenizerFile file =
      parse_tokenizer_json(std::move(name), {reinterpret_cast<const char*>(mapped.bytes().data()), size});
  mapped.check();
  return file;
}

TokenizerFile read_tokenizer_json(const std::filesystem::path& path) {
  TokenizerFile file = parse_tokenizer_json(path);
  check_vocabulary(file);
  return file;
}

}  // namespace attnctl
