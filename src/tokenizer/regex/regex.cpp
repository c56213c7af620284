#include "tokenizer/regex/regex.hpp"

#include <array>
#include <cstddef>
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

/// Buffers of one thread.
struct Search {
  std::unique_ptr<OnigRegion, FreeRegion> region{onig_region_new()};
  std::unique_ptr<OnigMatchParam, FreeLimits> limits{onig_new_match_param()};
};

}  // namespace

struct Regex::Program {
  std::string place;  // file and JSON pointer, for errors
  std::optional<WordCutter> words;
  std::unique_ptr<regex_t, FreeRegex> compiled;  // null if `words` is set

  void find_all(std::string_view text, std::vector<Match>& matches) const;
};

Regex::Regex(const PartConfig& where, std::string_view pattern) {
  auto program = std::make_shared<Program>();
  program->place = fmt::format("{}: {}", where.file(), shown(where.pointer()));
  if (const std::optional<WordRules> rules = WordRules::of(pattern)) {
    program->words.emplace(*rules);
  } else {
    regex_t* compiled = nullptr;
    OnigErrorInfo info{};
    const int code = onig_new(&compiled, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
                              ONIG_OPTION_NONE, regex_encoding(), ONIG_SYNTAX_ONIGURUMA, &info);
    if (code != ONIG_NORMAL) {
      where.refuse(
          "", fmt::format("invalid regular expression {}: {}", in_quotes(pattern), message_of(code, info)));
    }
    program->compiled.reset(compiled);
  }
  program_ = std::move(program);
}

void Regex::find_all(std::string_view text, std::vector<Match>& matches) const {
  matches.clear();
  if (program_->words) {
    for (std::size_t i = 0; i < text.size(); i = matches.back().second) {
      matches.emplace_back(i, program_->words->end(text, i));
    }
  } else {
    program_->find_all(text, matches);
  }
}

void Regex::Program::find_all(std::string_view text, std::vector<Match>& matches) const {
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
