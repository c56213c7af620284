#include "support/tokenizer_golden.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "base/text.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlainAlphabets = 9;
constexpr std::uint64_t kMostParts = 12;
constexpr std::uint64_t kLongestRun = 4;
constexpr std::ptrdiff_t kLongestLine = 16;

fs::path golden_folder() {
  return fs::path(ATTNCTL_SOURCE_DIR) / "tests/golden/tokenizers";
}

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t state) : state_(state) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ += 0x9E3779B97F4A7C15U;
    return mix(state_) % bound;
  }

 private:
  std::uint64_t state_;
};

void append_utf8(std::string& text, std::uint32_t code) {
  const auto tail = [&](std::uint32_t shift) {
    text.push_back(static_cast<char>(0x80U | ((code >> shift) & 0x3FU)));
  };
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    text.push_back(static_cast<char>(0xC0U | (code >> 6)));
    tail(0);
  } else if (code < 0x10000) {
    text.push_back(static_cast<char>(0xE0U | (code >> 12)));
    tail(6);
    tail(0);
  } else {
    text.push_back(static_cast<char>(0xF0U | (code >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

void draw(std::string& text, const nlohmann::json& alphabet, SplitMix64& random) {
  if (alphabet.contains("pieces")) {
    const nlohmann::json& pieces = alphabet["pieces"];
    text += pieces[random.below(pieces.size())].get_ref<const std::string&>();
    return;
  }
  const nlohmann::json& ranges = alphabet["ranges"];
  const nlohmann::json& range = ranges[random.below(ranges.size())];
  const auto first = range[0].get<std::uint32_t>();
  const auto last = range[1].get<std::uint32_t>();
  const auto code = first + static_cast<std::uint32_t>(random.below(last - first + 1));
  append_utf8(text, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
}

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t value = 0xCBF29CE484222325U) {
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  return value;
}

/// Returns the folder of a golden's tokenizer; an empty path if it is not configured.
fs::path tokenizer_directory(const std::string& name, const nlohmann::json& model) {
  if (model.is_null()) return golden_folder() / name;
  const auto place = model.get<std::string>();
  constexpr std::string_view kShared = "shared/";
  if (place.starts_with(kShared)) return fs::path(ATTNCTL_SHARED_DIR) / place.substr(kShared.size());
  if (place != "MiniLM") return fs::path(ATTNCTL_SOURCE_DIR) / place;
  const char* const named =
      std::getenv("ATTNCTL_MINILM");  // NOLINT(concurrency-mt-unsafe): tests set nothing
  return named == nullptr ? fs::path() : fs::path(named);
}

}  // namespace

RandomTexts::RandomTexts(std::uint64_t seed)
    : seed_(seed), alphabets_(golden_tokenizer_file("alphabets.json")) {}

std::string RandomTexts::text(std::uint64_t number) const {
  SplitMix64 random(mix(seed_ + number));
  const std::uint64_t known = number % 2 == 0 ? kPlainAlphabets : alphabets_.size();
  std::string text;
  const std::uint64_t parts = 1 + random.below(kMostParts);
  for (std::uint64_t part = 0; part < parts; ++part) {
    const nlohmann::json& alphabet = alphabets_[random.below(known)];
    const std::uint64_t run = 1 + random.below(kLongestRun);
    for (std::uint64_t i = 0; i < run; ++i) draw(text, alphabet, random);
  }
  return text;
}

std::string encoding_line(const tokenizer::Encoding& encoding) {
  fmt::memory_buffer line;
  const auto out = fmt::appender(line);
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const tokenizer::TextRange range = encoding.offsets[i];
    fmt::format_to(out, "{}{}@{}-{}", i == 0 ? "" : " ", encoding.ids[i], range.begin, range.end);
    if (encoding.words[i]) fmt::format_to(out, "/{}", *encoding.words[i]);
    if (encoding.type_ids[i] != 0) fmt::format_to(out, ":{}", encoding.type_ids[i]);
    if (encoding.special[i] != 0) line.push_back('*');
  }
  return fmt::to_string(line);
}

std::string shortened_line(const std::string& line) {
  const auto count = std::count(line.begin(), line.end(), '@');
  return count <= kLongestLine ? line : fmt::format("#{} {:016x}", count, fnv1a(line));
}

std::string block_hash(const std::vector<std::string>& lines) {
  std::uint64_t value = fnv1a("");
  for (const std::string& line : lines) value = fnv1a("\n", fnv1a(line, value));
  return fmt::format("{:016x}", value);
}

std::vector<std::string> treebank_texts(const fs::path& path) {
  constexpr std::string_view kMark = "# text = ";
  std::vector<std::string> texts;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kMark)) texts.push_back(line.substr(kMark.size()));
  }
  return texts;
}

std::vector<TokenizerGolden> tokenizer_goldens(std::vector<std::string>& skipped) {
  std::vector<TokenizerGolden> goldens;
  for (const fs::directory_entry& entry : fs::directory_iterator(golden_folder())) {
    if (!entry.is_directory()) continue;
    TokenizerGolden golden{.name = entry.path().filename().string(), .directory = {}, .expected = {}};
    golden.expected = golden_tokenizer_file(golden.name + "/golden.json");
    golden.directory = tokenizer_directory(golden.name, golden.expected["model"]);
    if (fs::exists(golden.directory / "tokenizer.json") || fs::exists(golden.directory / "vocab.txt")) {
      goldens.push_back(std::move(golden));
    } else {
      skipped.push_back(golden.name);
    }
  }
  std::sort(goldens.begin(), goldens.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return goldens;
}

nlohmann::json golden_tokenizer_file(const std::string& name) {
  return nlohmann::json::parse(slurp(golden_folder() / name));
}

}  // namespace attnctl::test
