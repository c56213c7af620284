#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnctl {

/// A SentencePiece model: the fields of sentencepiece_model.proto that tokenizing needs, with their defaults.
struct SentencePieceModel {
  enum class Type : std::uint8_t { normal = 1, unknown, control, user_defined, unused, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::normal;
  };
  enum class Algorithm : std::uint8_t { unigram = 1, bpe, word, character };

  std::vector<Piece> pieces;  // by id
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string charsmap;  // bytes of the precompiled charsmap; empty: none
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Parses the protobuf message; `file` is escaped. Throws Error(bad_input).
[[nodiscard]] SentencePieceModel parse_sentencepiece(const std::string& file, std::string_view bytes);

}  // namespace attnctl
