#include <fmt/format.h>

#include "base/text.hpp"
#include "tokenizer/parts/parts.hpp"
#include "tokenizer/regex/regex.hpp"

namespace attnctl::tokenizer {
namespace {

/// Returns bytes as UTF-8 text (see Decoder).
std::string visible(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence_length(bytes.substr(i));
    text += length == 0 ? fmt::format("<0x{:02X}>", static_cast<unsigned char>(bytes[i]))
                        : std::string(bytes.substr(i, length));
    i += std::max<std::size_t>(length, 1);
  }
  return text;
}

/// Returns the bytes that the characters of a token represent, as UTF-8 text. Returns the token itself if one
/// of its characters represents no byte.
std::string decode_byte_level(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const auto found = std::ranges::find(kByteCharacters, unicode::next(token, i));
    if (found == kByteCharacters.end()) return std::string(token);
    bytes += static_cast<char>(found - kByteCharacters.begin());
  }
  return visible(bytes);
}

std::string decode_byte(std::string_view token) {
  const std::optional<unsigned char> byte = byte_of(token);
  return byte ? visible(std::string(1, static_cast<char>(*byte))) : std::string(token);
}

Decoder make_word_piece(const PartConfig& config) {
  return [prefix = config.string("prefix")](std::string_view token) {
    if (token.starts_with(prefix)) token.remove_prefix(prefix.size());
    return std::string(token);
  };
}

Decoder replace_by_space(std::string string) {
  return [pattern = Regex::literal(std::move(string))](std::string_view token) {
    return pattern.replace_all(token, " ");
  };
}

Decoder keep(const PartConfig& /*config*/) {
  return [](std::string_view token) { return std::string(token); };
}

Decoder make_bpe_decoder(const PartConfig& config) {
  std::string suffix = config.string("suffix");
  return suffix.empty() ? keep(config) : replace_by_space(std::move(suffix));
}

Decoder make_replace_decoder(const PartConfig& config) {
  return [pattern = read_pattern(config), content = config.string("content")](std::string_view token) {
    return pattern.replace_all(token, content);
  };
}

/// Returns a decoder that removes up to "start" copies of a character at the beginning of a token, and up to
/// "stop" copies at its end.
Decoder make_strip_decoder(const PartConfig& config) {
  return [content = read_character(config, "content"), start = config.integer("start"),
          stop = config.integer("stop")](std::string_view token) {
    for (std::int64_t i = 0; i < start && token.starts_with(content); ++i) {
      token.remove_prefix(content.size());
    }
    for (std::int64_t i = 0; i < stop && token.ends_with(content); ++i) token.remove_suffix(content.size());
    return std::string(token);
  };
}

Decoder make_decoder_sequence(const PartConfig& config) {
  std::vector<Decoder> parts;
  bool fused = false;
  for (const PartConfig& part : config.objects("decoders")) {
    Decoder made = make_decoder(part);
    const std::string type = part.string("type");
    // After Fuse, Strip changes only the ends of the whole text, not of each token.
    if (!(fused && type == "Strip")) parts.push_back(std::move(made));
    fused = fused || type == "Fuse";
  }
  return [parts = std::move(parts)](std::string_view token) {
    std::string text(token);
    for (const Decoder& part : parts) text = part(text);
    return text;
  };
}

constexpr PartRow<Decoder> kDecoders[] = {
    {"Sequence", make_decoder_sequence},
    {"ByteLevel", [](const PartConfig&) -> Decoder { return decode_byte_level; }},
    {"WordPiece", make_word_piece},
    {"Metaspace",
     [](const PartConfig& config) { return replace_by_space(read_character(config, "replacement")); }},
    {"BPEDecoder", make_bpe_decoder},
    {"ByteFallback", [](const PartConfig&) -> Decoder { return decode_byte; }},
    {"Fuse", keep},  // Fuse joins the tokens of a text and does not change single tokens
    {"Strip", make_strip_decoder},
    {"Replace", make_replace_decoder},
};

}  // namespace

Decoder make_decoder(const PartConfig& config) {
  return find_part(config, kDecoders).make(config);
}

}  // namespace attnctl::tokenizer
