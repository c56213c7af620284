#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"
#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl::tokenizer {
namespace {

/// Stores /model/vocab and /model/merges in a TokenizerFile, and the rest of the document as a JSON tree.
// NOLINTNEXTLINE(bugprone-exception-escape): moving JSON throws nothing
class TokenizerJson final : public formats::JsonTree {
 public:
  explicit TokenizerJson(TokenizerFile& file) : file_(file) {}

  bool has_vocabulary = false;
  bool has_merges = false;
  bool is_list = false;  // the vocabulary has the form [["token", score], ...]

 private:
  enum class FileSection { tree, vocabulary, merges };

  void on_begin(Container container) override {
    if (section_ == FileSection::tree && depth() == 2 && top_key_ == "model") {
      if (key_ == "vocab") section_ = FileSection::vocabulary;
      if (key_ == "merges") section_ = FileSection::merges;
    }
    if (section_ == FileSection::tree) return formats::JsonTree::on_begin(container);
    const bool in_vocabulary = section_ == FileSection::vocabulary;
    const bool is_array = container == Container::array;
    if (depth() == 2) {
      if (std::exchange(in_vocabulary ? has_vocabulary : has_merges, true)) {
        refuse(fmt::format("got the key \"{}\" twice, need different keys", key_));
      }
      if (in_vocabulary) is_list = is_array;
      if (!in_vocabulary && !is_array) refuse("got an object, need an array of merges");
    } else if (in_vocabulary && !is_list) {
      refuse("got an object or array, need a token's id");
    } else if (depth() > 3 || !is_array) {
      refuse(needed_pair());
    }
    strings_ = 0;
  }

  void on_end(Container container) override {
    if (section_ == FileSection::tree) {
      formats::JsonTree::on_end(container);
    } else if (depth() == 2) {
      section_ = FileSection::tree;
    } else if (strings_ != 2) {
      refuse(needed_pair());
    }
  }

  void on_key(std::string& key) override {
    if (section_ == FileSection::vocabulary) {
      file_.vocabulary.push_back({std::move(key), 0, 0});
      return;
    }
    if (depth() == 1) top_key_ = key;
    if (depth() == 2) key_ = key;
    formats::JsonTree::on_key(key);
  }

  void on_scalar(const formats::JsonScalar& scalar) override {
    if (section_ == FileSection::tree) return formats::JsonTree::on_scalar(scalar);
    if (section_ == FileSection::merges) return take_merge(scalar);
    is_list ? take_piece(scalar) : take_id(scalar);
  }

  [[nodiscard]] std::string_view needed_pair() const {
    return section_ == FileSection::merges ? "need two tokens" : "need a token and its score";
  }

  void take_id(const formats::JsonScalar& scalar) {
    const auto* id = std::get_if<std::uint64_t>(&scalar);
    if (id == nullptr || *id > kLargestTokenId) {
      refuse(fmt::format("got {}, need an id, an integer from 0 to {}", formats::describe(scalar),
                         kLargestTokenId));
    }
    file_.vocabulary.back().id = static_cast<std::int32_t>(*id);
  }

  /// Reads the token or the score of a pair ["token", score] of the vocabulary.
  void take_piece(const formats::JsonScalar& scalar) {
    strings_ = depth() == 4 ? strings_ + 1 : 0;
    const bool is_real = std::holds_alternative<double>(scalar);
    const bool is_integer =
        std::holds_alternative<std::int64_t>(scalar) || std::holds_alternative<std::uint64_t>(scalar);
    if (const auto* token = std::get_if<std::string*>(&scalar); token != nullptr && strings_ == 1) {
      if (file_.vocabulary.size() > kLargestTokenId)
        refuse(fmt::format("got more than {} tokens", kLargestTokenId + 1));
      const auto id = static_cast<std::int32_t>(file_.vocabulary.size());
      file_.vocabulary.push_back({std::move(**token), id, 0});
    } else if ((is_real || is_integer) && strings_ == 2) {
      file_.vocabulary.back().score = read_score(is_real ? digits() : formats::describe(scalar));
    } else {
      refuse(fmt::format("got {}, {}", formats::describe(scalar), needed_pair()));
    }
  }

  /// Reads a merge "left right", or one token of a merge ["left", "right"].
  void take_merge(const formats::JsonScalar& scalar) {
    const auto* text = std::get_if<std::string*>(&scalar);
    if (text == nullptr) refuse(fmt::format("got {}, {}", formats::describe(scalar), needed_pair()));
    if (depth() == 4) {
      if (++strings_ <= 2) file_.merges.add_side(**text);
      return;
    }
    if ((*text)->starts_with("#version")) return;  // old files contain the first line of merges.txt
    if (!file_.merges.add_line(**text)) {
      refuse(fmt::format("got {}, need two tokens with a space between", in_quotes(**text)));
    }
  }

  TokenizerFile& file_;
  FileSection section_ = FileSection::tree;
  std::string top_key_, key_;  // current keys at nesting depths 1 and 2
  std::size_t strings_ = 0;    // number of values read in the current pair
};

/// Returns the type of a model, such as "BPE". Old files have no /model/type; then the type follows from the
/// other fields of the model. Throws Error(bad_input) if it does not.
std::string type_of(const PartConfig& model, const TokenizerJson& json) {
  if (model.has("type")) return model.string("type");
  if (json.has_merges) return "BPE";
  if (json.is_list) return "Unigram";
  if (model.has("continuing_subword_prefix") && model.has("max_input_chars_per_word")) return "WordPiece";
  if (model.has("unk_token")) return "WordLevel";
  model.refuse("type", "missing; need the type of the model, such as \"BPE\"");
}

double scaled(std::uint64_t significand, std::int64_t exponent) {
  constexpr std::int64_t kLargestPower = 308;
  static const auto powers = [] {  // 1e0 to 1e308
    std::array<double, kLargestPower + 1> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string text = fmt::format("1e{}", i);
      std::from_chars(text.data(), text.data() + text.size(), all[i]);
    }
    return all;
  }();
  auto value = static_cast<double>(significand);
  while (exponent < -kLargestPower && value != 0) {
    value /= powers[kLargestPower];
    exponent += kLargestPower;
  }
  if (value == 0) return 0;
  if (exponent > kLargestPower) return std::numeric_limits<double>::infinity();
  return exponent < 0 ? value / powers[static_cast<std::size_t>(-exponent)]
                      : value * powers[static_cast<std::size_t>(exponent)];
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

double read_score(std::string_view digits) {
  constexpr std::int64_t kFarExponent = 1 << 30;
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  std::uint64_t significand = 0;
  std::int64_t exponent = 0;
  bool in_fraction = false;
  bool is_full = false;  // true if further digits do not fit; they are treated as zeros
  std::size_t i = 0;
  for (; i < digits.size() && (is_digit(digits[i]) || digits[i] == '.'); ++i) {
    if (digits[i] == '.') {
      in_fraction = true;
      is_full = false;
      continue;
    }
    const auto digit = static_cast<std::uint64_t>(digits[i] - '0');
    is_full = is_full || significand > (std::numeric_limits<std::uint64_t>::max() - digit) / 10;
    if (!is_full) significand = significand * 10 + digit;
    if (is_full != in_fraction) exponent += is_full ? 1 : -1;
  }
  if (i < digits.size()) {  // the exponent, after "e" or "E"
    ++i;
    const bool down = digits[i] == '-';
    if (!is_digit(digits[i])) ++i;
    std::int64_t power = 0;
    for (; i < digits.size(); ++i) power = std::min(power * 10 + (digits[i] - '0'), kFarExponent);
    exponent += down ? -power : power;
  }
  const double value = scaled(significand, exponent);
  return negative ? -value : value;
}

TokenizerFile parse_tokenizer_json(std::string name, std::string_view text) {
  TokenizerFile file;
  file.name = std::move(name);
  TokenizerJson json(file);
  file.merges.reserve(text.size() / 2);
  json.parse({.file = file.name, .text = text});
  file.parts = json.take();
  const PartConfig model = file.document().object("model");
  if (!json.has_vocabulary) model.refuse("vocab", "expected an object or array of tokens");
  const std::string type = type_of(model, json);
  const bool by_id = type == "WordPiece" || type == "BPE" || type == "WordLevel";
  if (by_id && json.is_list) model.refuse("vocab", "got an array, need an object for " + type);
  if (type == "Unigram" && !json.is_list) model.refuse("vocab", "got an object, need an array for " + type);
  if (type == "BPE" && !json.has_merges) model.refuse("merges", "expected an array of merges");
  file.parts["model"]["type"] = type;
  return file;
}

TokenizerFile read_tokenizer_json(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  const MappedFile mapped(path, Status::bad_input);
  const std::size_t size = mapped.bytes().size();
  if (size > kLargestTokenizerFile)
    refuse(mapped.name(), "got {} bytes, need at most {}", size, kLargestTokenizerFile);
  TokenizerFile file = parse_tokenizer_json(mapped.name(), mapped.text());
  mapped.check();
  file.added_tokens = read_added_tokens(file.document(), wanted);
  add_tokens(file, config);
  return file;
}

}  // namespace attnctl::tokenizer
