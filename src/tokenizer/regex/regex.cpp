#include "tokenizer/regex/regex.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "tokenizer/regex/regex_encoding.hpp"
#include "tokenizer/regex/word_cutter.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

// Limits on one search. Oniguruma's default number of retries takes 0.2 s; long texts get more.
constexpr unsigned long kRetriesPerMatch = 10'000'000;
constexpr unsigned long kRetriesPerByte = 100;
constexpr unsigned kStackLimit = 1U << 22U;  // saved states of one match, about 50 bytes each

struct FreeRegex {
  void operator()(regex_t* regex) const { onig_free(regex); }
};
struct FreeRegion {
  void operator()(OnigRegion* region) const { onig_region_free(region, 1); }
};
struct FreeLimits {
  void operator()(OnigMatchParam* limits) const { onig_free_match_param(limits); }
};

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string message_of(int code, const OnigErrorInfo& info) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const int size = onig_error_code_to_str(text.data(), code, &info);
  return {reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(size)};
}

/// Compiles a pattern. Throws Error(bad_input) at `where`.
std::unique_ptr<regex_t, FreeRegex> compile(const PartConfig& where, std::string_view pattern) {
  regex_t* compiled = nullptr;
  OnigErrorInfo info{};
  const int code = onig_new(&compiled, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
                            ONIG_OPTION_NONE, regex_encoding(), ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL) {
    where.refuse(
        "", fmt::format("invalid regular expression {}: {}", in_quotes(pattern), message_of(code, info)));
  }
  return std::unique_ptr<regex_t, FreeRegex>(compiled);
}

/// Returns the end of the character or character class that a pattern starts with; 0 if there is none.
std::size_t class_end(std::string_view pattern) {
  constexpr std::string_view kSpecial = "\\^$.|?*+()[{";
  if (pattern.empty()) return 0;
  if (pattern.starts_with("\\p{") || pattern.starts_with("\\P{")) return pattern.find('}') + 1;
  if (pattern[0] == '\\') {
    return pattern.size() > 1 && std::string_view("sSdDwW").find(pattern[1]) != std::string_view::npos ? 2
                                                                                                       : 0;
  }
  if (pattern[0] != '[') {
    std::size_t end = 0;
    unicode::next(pattern, end);
    return kSpecial.find(pattern[0]) == std::string_view::npos ? end : 0;
  }
  std::size_t i = pattern.starts_with("[^") ? 2 : 1;
  if (i < pattern.size() && pattern[i] == ']') return 0;  // a literal ]
  for (; i < pattern.size() && pattern[i] != '['; i += pattern[i] == '\\' ? 2 : 1) {
    if (pattern[i] == ']') return i + 1;
  }
  return 0;
}

/// A pattern that is one character or class with a greedy quantifier, such as \s+, [0-9] or \p{N}{1,3}. Its
/// matches are runs of characters, which are found ten times as fast as with a search.
class ClassRun {
 public:
  static std::optional<ClassRun> of(const PartConfig& where, std::string_view pattern) {
    const std::size_t end = class_end(pattern);
    if (end == 0) return std::nullopt;
    ClassRun run;
    if (!run.read_quantifier(pattern.substr(end))) return std::nullopt;
    run.compiled_ = compile(where, pattern.substr(0, end));
    for (std::size_t i = 0; i < run.ascii_.size(); ++i) {
      const auto c = static_cast<char>(i);
      run.ascii_[i] = run.match({&c, 1}, 0) == 1;
    }
    return run;
  }

  void find_all(std::string_view text, std::vector<Regex::Match>& matches) const {
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t begin = i;
      for (std::size_t count = 0; count < most_ && i < text.size(); ++count) {
        const std::size_t size = character(text, i);
        if (size == 0) break;
        i += size;
        if (count + 1 < least_) continue;
        if (count + 1 > least_) matches.pop_back();
        matches.emplace_back(begin, i);
      }
      if (i == begin) unicode::next(text, i);
    }
  }

 private:
  /// Reads "", "+", "{n}", "{n,}" or "{n,m}" with 1 <= n <= m. Returns false for any other text.
  bool read_quantifier(std::string_view text) {
    constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
    if (text.empty()) return true;
    if (text == "+") return most_ = kNoLimit, true;
    if (!text.starts_with('{') || !text.ends_with('}')) return false;
    text = text.substr(1, text.size() - 2);
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::optional<std::size_t> least = parse_number(text.substr(0, comma));
    const std::optional<std::size_t> most = comma == text.size()       ? least
                                            : comma + 1 == text.size() ? kNoLimit
                                                                       : parse_number(text.substr(comma + 1));
    if (!least || !most || *least == 0 || *least > *most || *least > kLargestCount) return false;
    least_ = *least;
    most_ = *most;
    return *most == kNoLimit || *most <= kLargestCount;
  }

  /// Returns the number of bytes of the character at `i` if it is in the class, or else 0.
  [[nodiscard]] std::size_t character(std::string_view text, std::size_t i) const {
    const auto byte = static_cast<unsigned char>(text[i]);
    return byte < 0x80 ? (ascii_[byte] ? 1 : 0) : match(text, i);
  }

  [[nodiscard]] std::size_t match(std::string_view text, std::size_t i) const {
    const OnigUChar* const begin = bytes_of(text);
    const int size =
        onig_match(compiled_.get(), begin, begin + text.size(), begin + i, nullptr, ONIG_OPTION_NONE);
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }

  static constexpr std::size_t kLargestCount = 100'000;  // Oniguruma rejects more
  std::unique_ptr<regex_t, FreeRegex> compiled_;         // the class
  std::size_t least_ = 1;
  std::size_t most_ = 1;
  std::array<bool, 128> ascii_{};
};

/// Buffers of one thread.
struct Search {
  std::unique_ptr<OnigRegion, FreeRegion> region{onig_region_new()};
  std::unique_ptr<OnigMatchParam, FreeLimits> limits{onig_new_match_param()};
};

}  // namespace

struct Regex::Program {
  std::string place;  // file and JSON pointer, for errors
  // One of these is set.
  std::optional<WordCutter> words;
  std::optional<ClassRun> run;
  std::unique_ptr<regex_t, FreeRegex> compiled;

  void search(std::string_view text, std::vector<Match>& matches) const;
};

Regex::Regex(const PartConfig& where, std::string_view pattern) {
  auto program = std::make_shared<Program>();
  program->place = fmt::format("{}: {}", where.file(), shown(where.pointer()));
  if (const std::optional<WordRules> rules = WordRules::of(pattern)) {
    program->words.emplace(*rules);
  } else {
    program->run = ClassRun::of(where, pattern);
    if (!program->run) program->compiled = compile(where, pattern);
  }
  program_ = std::move(program);
}

void Regex::find_all(std::string_view text, std::vector<Match>& matches) const {
  matches.clear();
  if (program_->words) {
    for (std::size_t i = 0; i < text.size(); i = matches.back().second) {
      matches.emplace_back(i, program_->words->end(text, i));
    }
  } else if (program_->run) {
    program_->run->find_all(text, matches);
  } else {
    program_->search(text, matches);
  }
}

void Regex::Program::search(std::string_view text, std::vector<Match>& matches) const {
  thread_local const Search search;
  onig_set_match_stack_limit_size_of_match_param(search.limits.get(), kStackLimit);
  onig_set_retry_limit_in_match_of_match_param(search.limits.get(), kRetriesPerMatch);
  onig_set_retry_limit_in_search_of_match_param(search.limits.get(),
                                                kRetriesPerMatch + kRetriesPerByte * text.size());
  const OnigUChar* const begin = bytes_of(text);
  const OnigUChar* const end = begin + text.size();
  for (std::size_t from = 0; from <= text.size();) {
    const int code = onig_search_with_param(compiled.get(), begin, end, begin + from, end,
                                            search.region.get(), ONIG_OPTION_NONE, search.limits.get());
    if (code == ONIG_MISMATCH) return;
    if (code < 0) {
      fail(Status::bad_input,
           "{}: the regular expression backtracks for too long on this text ({}); simplify it", place,
           message_of(code, {}));
    }
    const auto first = static_cast<std::size_t>(search.region->beg[0]);
    const auto last = static_cast<std::size_t>(search.region->end[0]);
    const std::size_t done = matches.empty() ? 0 : matches.back().second;
    if (first > last || first < done) {
      fail(Status::bad_input, "{}: \\K in a look-around makes matches overlap; remove it", place);
    }
    if (first < last || matches.empty() || last > done) matches.emplace_back(first, last);
    from = last;
    if (first < last) continue;
    if (from == text.size()) return;
    unicode::next(text, from);
  }
}

void Pattern::find_all(std::string_view text, std::vector<Regex::Match>& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  matches.clear();
  for (std::size_t i = text.find(string_); i < text.size(); i = text.find(string_, i + string_.size())) {
    matches.emplace_back(i, i + string_.size());
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content) const {
  std::vector<Regex::Match> matches;
  find_all(text, matches);
  std::string replaced;
  std::size_t done = 0;
  for (const auto& [begin, end] : matches) {
    replaced.append(text.substr(done, begin - done)).append(content);
    done = end;
  }
  return replaced.append(text.substr(done));
}

Pattern read_pattern(const PartConfig& config) {
  const PartConfig pattern = config.object("pattern");
  if (pattern.node().size() == 1) {
    if (pattern.has("String")) {
      std::string string = pattern.string("String");
      if (!string.empty()) return Pattern(std::move(string));
      return Pattern(Regex(pattern.at("String"), string));  // matches before and after each character
    }
    if (pattern.has("Regex")) return Pattern(Regex(pattern.at("Regex"), pattern.string("Regex")));
  }
  config.refuse("pattern", R"(unsupported, supported: {"String": text}, {"Regex": expression})");
}

}  // namespace attnctl
