#include "tokenizer/decoder.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/utf8.hpp"
#include "tokenizer/pre_tokenizers/byte_level.hpp"
#include "tokenizer/pre_tokenizers/pre_tokenizer_parts.hpp"
#include "tokenizer/regex/regex.hpp"
#include "tokenizer/unicode/unicode.hpp"

// Each gives what it makes of a token in the middle of a text, where the decoders that look at the ends of
// the text have nothing to do. All take and give well-formed UTF-8.
namespace attnctl {
namespace {

/// Bytes as text; those that are no whole character as <0xE2>.
std::string visible(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::size_t length = utf8_sequence_length(bytes.substr(i));
    if (length == 0) {
      text += fmt::format("<0x{:02X}>", static_cast<unsigned char>(bytes[i]));
    } else {
      text += bytes.substr(i, length);
    }
    i += length == 0 ? 1 : length;
  }
  return text;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string made;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at < text.size(); at = text.find(from, done)) {
    made.append(text.substr(done, at - done)).append(to);
    done = at + from.size();
  }
  return made.append(text.substr(done));
}

/// A token with a character that stands for no byte is shown as it is.
class ByteLevelDecoder final : public Decoder {
 public:
  [[nodiscard]] std::string shown(std::string_view token) const override {
    std::string bytes;
    for (std::size_t i = 0; i < token.size();) {
      const std::optional<unsigned char> byte = byte_level::byte_of(unicode::next(token, i));
      if (!byte) return std::string(token);
      bytes += static_cast<char>(*byte);
    }
    return visible(bytes);
  }
};

/// <0x41> is "A".
class ByteFallbackDecoder final : public Decoder {
 public:
  [[nodiscard]] std::string shown(std::string_view token) const override {
    constexpr std::size_t size = 6;
    unsigned char byte = 0;
    const bool is_byte =
        token.size() == size && token.starts_with("<0x") && token.back() == '>' &&
        std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr == token.data() + 5;
    return is_byte ? visible(std::string(1, static_cast<char>(byte))) : std::string(token);
  }
};

class WordPieceDecoder final : public Decoder {
 public:
  explicit WordPieceDecoder(std::string prefix) : prefix_(std::move(prefix)) {}
  [[nodiscard]] std::string shown(std::string_view token) const override {
    if (token.starts_with(prefix_)) token.remove_prefix(prefix_.size());
    return std::string(token);
  }

 private:
  std::string prefix_;
};

/// Metaspace, BPEDecoder, and Replace with a string.
class ReplaceString final : public Decoder {
 public:
  ReplaceString(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  [[nodiscard]] std::string shown(std::string_view token) const override {
    return from_.empty() ? std::string(token) : replaced(token, from_, to_);
  }

 private:
  std::string from_;
  std::string to_;
};

class ReplaceRegex final : public Decoder {
 public:
  ReplaceRegex(Regex from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  [[nodiscard]] std::string shown(std::string_view token) const override {
    std::vector<Regex::Match> matches;
    from_.find_all(token, matches);
    std::string made;
    std::size_t done = 0;
    for (const auto& [begin, end] : matches) {
      made.append(token.substr(done, begin - done)).append(to_);
      done = end;
    }
    return made.append(token.substr(done));
  }

 private:
  Regex from_;
  std::string to_;
};

/// Takes up to so many of a character from the ends.
class StripDecoder final : public Decoder {
 public:
  struct Counts {
    std::int64_t start = 0;
    std::int64_t stop = 0;
  };

  StripDecoder(std::string content, Counts counts) : content_(std::move(content)), counts_(counts) {}
  [[nodiscard]] std::string shown(std::string_view token) const override {
    for (std::int64_t i = 0; i < counts_.start && token.starts_with(content_); ++i) {
      token.remove_prefix(content_.size());
    }
    for (std::int64_t i = 0; i < counts_.stop && token.ends_with(content_); ++i) {
      token.remove_suffix(content_.size());
    }
    return std::string(token);
  }

 private:
  std::string content_;
  Counts counts_;
};

class SequenceDecoder final : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<DecoderPtr> parts) : parts_(std::move(parts)) {}
  [[nodiscard]] std::string shown(std::string_view token) const override {
    std::string text(token);
    for (const DecoderPtr& part : parts_) text = part->shown(text);
    return text;
  }

 private:
  std::vector<DecoderPtr> parts_;
};

DecoderPtr make_byte_level_decoder(const PartConfig& /*config*/) {
  return std::make_unique<const ByteLevelDecoder>();
}

DecoderPtr make_byte_fallback(const PartConfig& /*config*/) {
  return std::make_unique<const ByteFallbackDecoder>();
}

DecoderPtr make_word_piece_decoder(const PartConfig& config) {
  return std::make_unique<const WordPieceDecoder>(config.string("prefix"));
}

DecoderPtr make_metaspace_decoder(const PartConfig& config) {
  return std::make_unique<const ReplaceString>(read_character(config, "replacement"), " ");
}

DecoderPtr make_bpe_decoder(const PartConfig& config) {
  return std::make_unique<const ReplaceString>(config.string("suffix"), " ");
}

DecoderPtr make_replace(const PartConfig& config) {
  const PartConfig pattern = config.object("pattern");
  std::string to = config.string("content");
  if (pattern.has("String"))
    return std::make_unique<const ReplaceString>(pattern.string("String"), std::move(to));
  return std::make_unique<const ReplaceRegex>(Regex(pattern.at("Regex"), pattern.string("Regex")),
                                              std::move(to));
}

DecoderPtr make_strip(const PartConfig& config) {
  return std::make_unique<const StripDecoder>(
      read_character(config, "content"),
      StripDecoder::Counts{config.integer("start"), config.integer("stop")});
}

/// Joins the tokens of a text: nothing for one of them.
DecoderPtr make_fuse(const PartConfig& /*config*/) {
  return std::make_unique<const SequenceDecoder>(std::vector<DecoderPtr>());
}

DecoderPtr make_sequence(const PartConfig& config) {
  std::vector<DecoderPtr> parts;
  bool fused = false;
  for (const PartConfig& part : config.objects("decoders")) {
    DecoderPtr made = make_decoder(part);
    const std::string type = part.string("type");
    // Behind Fuse, the ends that Strip looks at are those of the whole text.
    if (!(fused && type == "Strip")) parts.push_back(std::move(made));
    fused = fused || type == "Fuse";
  }
  return std::make_unique<const SequenceDecoder>(std::move(parts));
}

constexpr PartRow<DecoderPtr> decoders[] = {
    {"Sequence", make_sequence},
    {"ByteLevel", make_byte_level_decoder},
    {"WordPiece", make_word_piece_decoder},
    {"Metaspace", make_metaspace_decoder},
    {"BPEDecoder", make_bpe_decoder},
    {"ByteFallback", make_byte_fallback},
    {"Fuse", make_fuse},
    {"Strip", make_strip},
    {"Replace", make_replace},
};

}  // namespace

DecoderPtr make_decoder(const PartConfig& config) {
  return make_part(config, decoders);
}

}  // namespace attnctl
