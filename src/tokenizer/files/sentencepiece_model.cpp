#include "tokenizer/files/sentencepiece_model.hpp"

#include <bit>
#include <cstddef>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/files/tokenizer_file.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

/// Reads a message of the protobuf wire format field by field. Holds a view of the bytes.
class Message {
 public:
  Message(const std::string& file, std::string_view bytes, std::size_t offset)
      : file_(file), bytes_(bytes), offset_(offset) {}

  struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;  // of a number
    std::string_view bytes;   // of a string or message
    std::size_t offset = 0;   // of `bytes` in the file
    std::uint32_t wire = 0;
  };

  /// Returns the next field; nullopt at the end.
  std::optional<Field> next() {
    if (at_ == bytes_.size()) return std::nullopt;
    const std::uint64_t tag = varint();
    Field field;
    field.number = static_cast<std::uint32_t>(tag >> 3U);
    field.wire = static_cast<std::uint32_t>(tag & 7U);
    if (tag >> 3U == 0 || tag >> 32U != 0) refuse("need a field's number");
    switch (field.wire) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.value = fixed(8);
        break;
      case 2: {
        const std::uint64_t length = varint();
        if (length > bytes_.size() - at_) refuse("got a field that is longer than its message");
        field.offset = offset_ + at_;
        field.bytes = bytes_.substr(at_, static_cast<std::size_t>(length));
        at_ += static_cast<std::size_t>(length);
        break;
      }
      case 5:
        field.value = fixed(4);
        break;
      default:
        refuse("got an unsupported kind of field");
    }
    return field;
  }

  [[nodiscard]] Message message(const Field& field) const {
    require_wire(field, 2);
    return {file_, field.bytes, field.offset};
  }
  [[nodiscard]] std::string_view text(const Field& field) const {
    require_wire(field, 2);
    return field.bytes;
  }
  [[nodiscard]] std::uint64_t number(const Field& field) const {
    require_wire(field, 0);
    return field.value;
  }
  [[nodiscard]] bool boolean(const Field& field) const { return number(field) != 0; }
  [[nodiscard]] float real(const Field& field) const {
    require_wire(field, 5);
    return std::bit_cast<float>(static_cast<std::uint32_t>(field.value));
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(Status::bad_input, "{}: @byte {}: not a SentencePiece model: {}", file_, offset_ + at_, what);
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) refuse("got the end inside a number");
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    refuse("got a number of more than ten bytes");
  }
  std::uint64_t fixed(std::size_t size) {
    if (bytes_.size() - at_ < size) refuse("got the end inside a number");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    }
    at_ += size;
    return value;
  }
  void require_wire(const Field& field, std::uint32_t wire) const {
    if (field.wire != wire) refuse("got a field of another kind than in SentencePiece");
  }

  const std::string& file_;
  std::string_view bytes_;
  std::size_t offset_;  // of the message in the file
  std::size_t at_ = 0;
};

SentencePieceModel::Piece read_piece(Message message) {
  SentencePieceModel::Piece piece;
  while (const auto field = message.next()) {
    if (field->number == 1) {
      piece.text = message.text(*field);
      if (find_ill_formed_utf8(piece.text)) message.refuse("got a piece that is not UTF-8");
    } else if (field->number == 2) {
      piece.score = message.real(*field);
    } else if (field->number == 3) {
      const std::uint64_t type = message.number(*field);
      if (type < 1 || type > 6) message.refuse("got an unsupported type of piece");
      piece.type = static_cast<SentencePieceModel::Type>(type);
    }
  }
  if (piece.text.empty()) message.refuse("got a piece without text");
  return piece;
}

void read_trainer(Message message, SentencePieceModel& model) {
  while (const auto field = message.next()) {
    if (field->number == 3) {
      const std::uint64_t algorithm = message.number(*field);
      if (algorithm < 1 || algorithm > 4) message.refuse("got an unsupported model_type");
      model.algorithm = static_cast<SentencePieceModel::Algorithm>(algorithm);
    } else if (field->number == 24) {
      model.whitespace_as_suffix = message.boolean(*field);
    } else if (field->number == 35) {
      model.byte_fallback = message.boolean(*field);
    }
  }
}

void read_normalizer(Message message, SentencePieceModel& model) {
  while (const auto field = message.next()) {
    if (field->number == 2) model.charsmap = message.text(*field);
    if (field->number == 3) model.add_dummy_prefix = message.boolean(*field);
    if (field->number == 4) model.remove_extra_whitespaces = message.boolean(*field);
    if (field->number == 5) model.escape_whitespaces = message.boolean(*field);
  }
}

}  // namespace

SentencePieceModel parse_sentencepiece(const std::string& file, std::string_view bytes) {
  SentencePieceModel model;
  Message message(file, bytes, 0);
  while (const auto field = message.next()) {
    if (field->number == 1) {
      if (model.pieces.size() > kLargestTokenId) message.refuse("got too many pieces");
      model.pieces.push_back(read_piece(message.message(*field)));
    } else if (field->number == 2) {
      read_trainer(message.message(*field), model);
    } else if (field->number == 3) {
      read_normalizer(message.message(*field), model);
    }
  }
  if (model.pieces.empty()) message.refuse("got no pieces");
  return model;
}

}  // namespace attnctl
