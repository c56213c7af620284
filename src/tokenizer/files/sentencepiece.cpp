#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl::tokenizer {
namespace {

using Json = nlohmann::ordered_json;
using Model = SentencePieceModel;

/// Reads a protobuf message field by field. `file` and `bytes` must outlive this object.
class Message {
 public:
  Message(const std::string& file, std::string_view bytes, std::size_t offset)
      : file_(file), bytes_(bytes), offset_(offset) {}

  /// Moves to the next field. Returns false at the end of the message.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field_ = static_cast<std::uint32_t>(tag >> 3U);
    wire_ = static_cast<std::uint32_t>(tag & 7U);
    if (tag >> 3U == 0 || tag >> 32U != 0) refuse("got a field number that is 0 or too large");
    if (wire_ == kVariable) {
      value_ = varint();
      return true;
    }
    if (wire_ != kEight && wire_ != kBytes && wire_ != kFour) {
      refuse(fmt::format("got a field of the unsupported kind (wire type) {}", wire_));
    }
    const std::uint64_t size = wire_ == kBytes ? varint() : wire_ == kEight ? 8 : 4;
    if (size > bytes_.size() - at_) {
      refuse(wire_ == kBytes ? "got a field that is longer than its protobuf message"
                             : "a protobuf message ends inside a number");
    }
    content_ = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }

  // The number and the value of the current field. The functions that return the value throw
  // Error(bad_input) if the field's wire type is not that of the returned type.
  [[nodiscard]] std::uint32_t field() const { return field_; }
  [[nodiscard]] Message message() const { return {file_, text(), offset_ + at_ - content_.size()}; }
  [[nodiscard]] std::string_view text() const {
    require_wire(kBytes);
    return content_;
  }
  [[nodiscard]] std::uint64_t number() const {
    require_wire(kVariable);
    return value_;
  }
  [[nodiscard]] bool boolean() const { return number() != 0; }
  [[nodiscard]] float real() const {
    require_wire(kFour);
    float value = 0;  // stored in little-endian order
    std::memcpy(&value, content_.data(), sizeof(value));
    return value;
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(Status::bad_input, "{}: @byte {}: not a SentencePiece model: {}", file_, offset_ + at_, what);
  }

 private:
  enum Wire : std::uint32_t { kVariable = 0, kEight = 1, kBytes = 2, kFour = 5 };

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) refuse("a protobuf message ends inside a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    refuse("got a number of more than ten bytes");
  }
  void require_wire(Wire wire) const {
    if (wire_ != wire) refuse("got a field of another kind (wire type) than in sentencepiece_model.proto");
  }

  const std::string& file_;
  std::string_view bytes_;
  std::size_t offset_;  // offset of the message in the file
  std::size_t at_ = 0;
  std::uint32_t field_ = 0;
  std::uint32_t wire_ = 0;
  std::uint64_t value_ = 0;   // if the field is a number of variable size
  std::string_view content_;  // if the field is a string, a message or a number of fixed size
};

Model::ScoredPiece read_piece(Message message) {
  Model::ScoredPiece piece;
  while (message.next()) {
    if (message.field() == 1) {
      piece.text = message.text();
      if (find_ill_formed_utf8(piece.text)) message.refuse("got a piece that is not UTF-8");
    } else if (message.field() == 2) {
      piece.score = message.real();
    } else if (message.field() == 3) {
      const std::uint64_t type = message.number();
      if (type < 1 || type > 6) message.refuse(fmt::format("got a piece of the unsupported type {}", type));
      piece.type = static_cast<Model::Type>(type);
    }
  }
  if (piece.text.empty()) message.refuse("got a piece without text");
  return piece;
}

void read_trainer(Message message, Model& model) {
  while (message.next()) {
    if (message.field() == 3) {
      const std::uint64_t algorithm = message.number();
      if (algorithm < 1 || algorithm > 4)
        message.refuse(fmt::format("got the unsupported model_type {}", algorithm));
      model.algorithm = static_cast<Model::Algorithm>(algorithm);
    }
    if (message.field() == 24) model.whitespace_as_suffix = message.boolean();
    if (message.field() == 35) model.byte_fallback = message.boolean();
  }
}

void read_normalizer(Message message, Model& model) {
  while (message.next()) {
    if (message.field() == 2) model.charsmap = message.text();
    if (message.field() == 3) model.add_dummy_prefix = message.boolean();
    if (message.field() == 4) model.remove_extra_whitespaces = message.boolean();
    if (message.field() == 5) model.escape_whitespaces = message.boolean();
  }
}

/// The longest supported BPE piece in bytes. Limited, because make_merges() tries every split of a piece.
constexpr std::size_t kLongestMerged = 1024;
constexpr std::string_view kSpace = "\u2581";

void check_supported(const TokenizerFile& file, const Model& model) {
  if (model.algorithm == Model::Algorithm::word || model.algorithm == Model::Algorithm::character) {
    refuse(file.name, "unsupported model_type {}, supported: 1 (unigram), 2 (BPE)",
           static_cast<int>(model.algorithm));
  }
  if (model.whitespace_as_suffix)
    refuse(file.name, "unsupported treat_whitespace_as_suffix true, supported: false");
  if (!model.escape_whitespaces) refuse(file.name, "unsupported escape_whitespaces false, supported: true");
  for (const Model::ScoredPiece& piece : model.pieces) {
    if (piece.type == Model::Type::unused && model.algorithm != Model::Algorithm::bpe)
      refuse(file.name, "unsupported type UNUSED of the piece {}", in_quotes(piece.text));
    if (!std::isfinite(piece.score))
      refuse(file.name, "got a score that is not finite for the piece {}", in_quotes(piece.text));
  }
}

/// Adds the merges of a BPE model to `file`. Every pair of pieces that together are a piece of the type
/// `normal` is a merge. Merges are ordered by the score of the merged piece, the highest first.
void make_merges(TokenizerFile& file, const Model& model) {
  std::vector<const Model::ScoredPiece*> pieces;
  for (const Model::ScoredPiece& piece : model.pieces) pieces.push_back(&piece);
  std::ranges::stable_sort(pieces, std::ranges::greater(), &Model::ScoredPiece::score);
  for (const Model::ScoredPiece* const made : pieces) {
    // A piece of the type `unused` usually only fills a gap between ids. If a merge makes such a piece, the
    // model is not supported.
    const bool unused = made->type == Model::Type::unused;
    if (made->type != Model::Type::normal && !unused) continue;
    const std::string_view text = made->text;
    if (text.size() > kLongestMerged) {
      refuse(file.name, "unsupported piece of {} bytes, supported: up to {}", text.size(), kLongestMerged);
    }
    for (std::size_t i = 1; i < text.size(); ++i) {
      if (U8_IS_TRAIL(text[i])) continue;  // inside of a character
      if (file.table->find(text.substr(0, i)) < 0 || file.table->find(text.substr(i)) < 0) continue;
      if (unused) {
        refuse(file.name, "unsupported type UNUSED of the piece {}, which two other pieces together make",
               in_quotes(text));
      }
      file.merges.add(text.substr(0, i), text.substr(i));
    }
  }
}

void set_model(TokenizerFile& file, const Model& model) {
  Json& part = file.parts["model"];
  const auto unknown = std::ranges::find(model.pieces, Model::Type::unknown, &Model::ScoredPiece::type);
  part["byte_fallback"] = model.byte_fallback;
  if (model.algorithm == Model::Algorithm::bpe) {
    part["fuse_unk"] = true;
    if (unknown != model.pieces.end()) part["unk_token"] = unknown->text;
  } else if (unknown != model.pieces.end()) {
    part["unk_id"] = static_cast<std::uint64_t>(unknown - model.pieces.begin());
  }
}

Json replace(std::string_view regex, std::string_view content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", regex}}}, {"content", content}};
}

/// Returns whether texts can be cut before each space without changing the tokens. This is so for Unigram
/// models in which no piece has a space ("▁") after its first character.
bool can_split(const Model& model) {
  return model.algorithm == Model::Algorithm::unigram &&
         std::none_of(model.pieces.begin(), model.pieces.end(), [](const Model::ScoredPiece& piece) {
           return std::string_view(piece.text).find(kSpace, 1) != std::string_view::npos;
         });
}

/// Sets the normalizer and the pre-tokenizer. If add_prefix_space (default: add_dummy_prefix) is
/// true, a space is inserted before a text. If the model has no user-defined pieces, the normalizer inserts
/// it. Otherwise the text is already cut at user-defined pieces when the normalizer runs, and the
/// pre-tokenizer Metaspace inserts the space. Metaspace inserts none before a text that starts with a space;
/// therefore, with remove_extra_whitespaces, the normalizer then reduces the spaces at the start of a text to
/// one instead of removing them.
void set_text_parts(TokenizerFile& file, const Model& model, const TokenizerConfig& config) {
  const bool prefix = config.options().boolean("add_prefix_space", model.add_dummy_prefix);
  const bool is_cut =
      std::ranges::count(model.pieces, Model::Type::user_defined, &Model::ScoredPiece::type) > 0;
  Json steps = Json::array();
  if (!model.charsmap.empty()) {
    steps.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", Json::binary({model.charsmap.begin(), model.charsmap.end()})}});
  }
  if (model.remove_extra_whitespaces) {
    steps.push_back(replace(is_cut && prefix ? "[ \u2581]+\\z" : "\\A +|[ \u2581]+\\z", ""));
    steps.push_back(replace(" {2,}", " "));
  }
  const bool prepend = prefix && !is_cut;
  if (prepend) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  if (!steps.empty()) file.parts["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  file.parts["pre_tokenizer"] = {{"type", "Metaspace"},
                                 {"replacement", kSpace},
                                 {"prepend_scheme", prefix && !prepend ? "first" : "never"},
                                 {"split", can_split(model)}};
}

bool is_class(const TokenizerConfig& config, std::string_view name) {
  return config.options().string("tokenizer_class", "").starts_with(name);
}

void set_defaults(TokenizerFile& file, TokenizerConfig& config, const Model& model) {
  for (const Model::ScoredPiece& piece : model.pieces) {
    if (piece.type == Model::Type::unknown) config.set_defaults({{"unk_token", piece.text}});
    if (piece.type != Model::Type::control) continue;
    if (piece.text == "<s>") config.set_defaults({{"bos_token", piece.text}});
    if (piece.text == "</s>") config.set_defaults({{"eos_token", piece.text}});
    if (piece.text == "<pad>") config.set_defaults({{"pad_token", piece.text}});
  }
  if (!is_class(config, "T5Tokenizer")) return;
  // The tokens <extra_id_N> come after the pieces, with descending N.
  for (std::int64_t i = config.options().integer("extra_ids", 100); i > 0; --i) {
    if (i > 10'000)
      config.options().refuse("extra_ids", "got more than 10000, which is the largest supported number");
    file.added_tokens.push_back({.content = fmt::format("<extra_id_{}>", i - 1), .special = true});
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece(const std::string& file, std::string_view bytes) {
  SentencePieceModel model;
  Message message(file, bytes, 0);
  while (message.next()) {
    if (message.field() == 1) {
      if (model.pieces.size() > kLargestTokenId) {
        message.refuse(fmt::format("got more than {} pieces", kLargestTokenId + 1));
      }
      model.pieces.push_back(read_piece(message.message()));
    }
    if (message.field() == 2) read_trainer(message.message(), model);
    if (message.field() == 3) read_normalizer(message.message(), model);
  }
  if (model.pieces.empty()) message.refuse("got no pieces");
  return model;
}

TokenizerFile make_sentencepiece(std::string name, const Model& model, TokenizerConfig& config,
                                 Wanted wanted) {
  TokenizerFile file;
  file.name = std::move(name);
  for (const Model::ScoredPiece& piece : model.pieces) {
    const auto id = static_cast<std::int32_t>(file.vocabulary.size());
    file.vocabulary.push_back({piece.text, id, static_cast<double>(piece.score)});
    const bool special = piece.type == Model::Type::control;
    if (special || piece.type == Model::Type::user_defined) {
      file.added_tokens.push_back({.content = piece.text, .special = special});
    }
  }
  const bool is_bpe = model.algorithm == Model::Algorithm::bpe;
  file.parts["model"]["type"] = is_bpe ? "BPE" : "Unigram";
  if (wanted == Wanted::tokenizer) {
    check_supported(file, model);
    set_defaults(file, config, model);
  }
  add_tokens(file, config);
  if (wanted == Wanted::vocabulary) return file;
  if (is_bpe) make_merges(file, model);
  set_model(file, model);
  set_text_parts(file, model, config);
  file.parts["post_processor"] = make_template(file, config, is_class(config, "T5Tokenizer"));
  return file;
}

TokenizerFile read_sentencepiece(const std::filesystem::path& path, TokenizerConfig& config, Wanted wanted) {
  std::string name = escaped(path.string());
  const std::string bytes = read_file(path, kLargestTokenizerFile, Status::bad_input);
  const Model model = parse_sentencepiece(name, bytes);
  if (wanted == Wanted::tokenizer)
    check_class(config, "a SentencePiece model", {"LlamaTokenizer", "T5Tokenizer"});
  return make_sentencepiece(std::move(name), model, config, wanted);
}

}  // namespace attnctl::tokenizer
