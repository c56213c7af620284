#include "tokenizer/regex/regex.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unicode/uregex.h>

#include "base/error.hpp"
#include "base/shown.hpp"
#include "tokenizer/pre_tokenizers/word_cutter.hpp"
#include "tokenizer/regex/regex_dialect.hpp"
#include "tokenizer/unicode/unicode.hpp"

namespace attnctl {
namespace {

struct CloseRegex {
  void operator()(URegularExpression* expression) const { uregex_close(expression); }
};
using Expression = std::unique_ptr<URegularExpression, CloseRegex>;

/// Text in UTF-16, as ICU wants it, and where each unit came from. Buffers are kept.
class Wide {
 public:
  void assign(std::string_view text) {
    units_.clear();
    from_.clear();
    std::size_t i = 0;
    while (i < text.size()) {
      const auto at = static_cast<std::uint32_t>(i);
      const char32_t c = unicode::next(text, i);
      from_.push_back(at);
      if (c < 0x10000) {
        units_.push_back(static_cast<char16_t>(c));
      } else {
        units_.push_back(static_cast<char16_t>(0xD7C0U + (c >> 10U)));
        units_.push_back(static_cast<char16_t>(0xDC00U | (c & 0x3FFU)));
        from_.push_back(at);
      }
    }
    from_.push_back(static_cast<std::uint32_t>(i));
  }
  [[nodiscard]] const std::u16string& units() const { return units_; }
  [[nodiscard]] std::size_t byte(std::int32_t unit) const { return from_[static_cast<std::size_t>(unit)]; }

 private:
  std::u16string units_;
  std::vector<std::uint32_t> from_;  // [units + 1], byte of the text
};

/// One worker's matcher: ICU keeps the state of a match in the expression.
struct Matcher {
  Expression expression;
  Wide text;
};

/// Finds runs of a set without an engine.
class SetRunFinder {
 public:
  explicit SetRunFinder(SetRun run) : run_(std::move(run)) {
    run_.set.freeze();
    for (std::size_t i = 0; i < ascii_.size(); ++i)
      ascii_[i] = run_.set.contains(static_cast<UChar32>(i)) != 0;
  }

  void find_all(std::string_view text, std::vector<Regex::Match>& matches) const {
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t begin = i;
      std::uint32_t count = 0;
      std::size_t behind = i;
      while (count < run_.most && i < text.size() && takes(text, behind)) {
        i = behind;
        ++count;
      }
      if (count == 0) {
        i = behind;
      } else if (count >= run_.least) {
        matches.emplace_back(begin, i);
      }
    }
  }

 private:
  /// Is the character at `i` in the set? `i` moves behind it.
  bool takes(std::string_view text, std::size_t& i) const {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) return ++i, ascii_[byte];
    return run_.set.contains(static_cast<UChar32>(unicode::next(text, i))) != 0;
  }

  SetRun run_;
  std::array<bool, 128> ascii_{};
};

// ICU counts steps in units of ten thousand, of which five hundred pass in a tenth of a second. A long text
// gets more: twenty steps a byte.
constexpr std::int32_t time_limit = 500;
constexpr std::size_t bytes_per_time_unit = 500;
constexpr std::int32_t stack_limit = 64 << 20;  // bytes; one match may save that much state

}  // namespace

struct Regex::Program {
  std::string place;  // file and pointer, for errors
  // One of the three.
  std::optional<WordCutter> words;
  std::optional<SetRunFinder> set_run;
  Expression compiled;

  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Matcher>> idle;

  void compile(const PartConfig& where, std::string_view pattern, const std::u16string& translated) {
    UErrorCode status = U_ZERO_ERROR;
    compiled.reset(
        uregex_open(translated.data(), static_cast<std::int32_t>(translated.size()), 0, nullptr, &status));
    if (U_SUCCESS(status)) return;
    where.refuse("", fmt::format("unsupported regular expression {} (ICU: {})", in_quotes(pattern),
                                 u_errorName(status)));
  }

  std::unique_ptr<Matcher> take() const {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        std::unique_ptr<Matcher> matcher = std::move(idle.back());
        idle.pop_back();
        return matcher;
      }
    }
    UErrorCode status = U_ZERO_ERROR;
    auto matcher = std::make_unique<Matcher>();
    matcher->expression.reset(uregex_clone(compiled.get(), &status));
    uregex_setStackLimit(matcher->expression.get(), stack_limit, &status);
    if (U_FAILURE(status)) fail(Status::environment, "{}: ICU: {}", place, u_errorName(status));
    return matcher;
  }

  void give_back(std::unique_ptr<Matcher> matcher) const {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(matcher));
  }

  void find_all(std::string_view text, std::vector<Match>& matches) const;

  void check(UErrorCode status) const {
    if (U_SUCCESS(status)) return;
    if (status == U_REGEX_TIME_OUT || status == U_REGEX_STACK_OVERFLOW) {
      fail(Status::bad_input, "{}: the regular expression backtracks for too long on this text; simplify it",
           place);
    }
    fail(Status::environment, "{}: ICU: {}", place, u_errorName(status));
  }
};

Regex::Regex(const PartConfig& where, std::string_view pattern) {
  auto program = std::make_unique<Program>();
  program->place = fmt::format("{}: {}", where.file(), shown(where.pointer()));
  if (const std::optional<WordRules> rules = WordRules::of(pattern)) {
    program->words.emplace(*rules);
  } else {
    TranslatedPattern translated = translate_pattern(where, pattern);
    if (translated.run) {
      program->set_run.emplace(std::move(*translated.run));
    } else {
      program->compile(where, pattern, translated.icu);
    }
  }
  program_ = std::move(program);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::string_view text, std::vector<Match>& matches) const {
  matches.clear();
  if (program_->words) {
    for (std::size_t i = 0; i < text.size(); i = matches.back().second) {
      matches.emplace_back(i, program_->words->end(text, i));
    }
  } else if (program_->set_run) {
    program_->set_run->find_all(text, matches);
  } else {
    program_->find_all(text, matches);
  }
}

void Regex::Program::find_all(std::string_view text, std::vector<Match>& matches) const {
  if (text.size() > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
    fail(Status::bad_input, "{}: a text of {} bytes, at most {} go through a regular expression", place,
         text.size(), std::numeric_limits<std::int32_t>::max());
  }
  std::unique_ptr<Matcher> matcher = take();
  URegularExpression* expression = matcher->expression.get();
  matcher->text.assign(text);
  const std::u16string& units = matcher->text.units();
  UErrorCode status = U_ZERO_ERROR;
  uregex_setText(expression, units.data(), static_cast<std::int32_t>(units.size()), &status);
  uregex_setTimeLimit(expression, time_limit + static_cast<std::int32_t>(text.size() / bytes_per_time_unit),
                      &status);
  std::int32_t behind = -1;
  while (uregex_findNext(expression, &status) != 0) {
    const std::int32_t begin = uregex_start(expression, 0, &status);
    const std::int32_t end = uregex_end(expression, 0, &status);
    if (begin == end && begin == behind) continue;
    matches.emplace_back(matcher->text.byte(begin), matcher->text.byte(end));
    behind = end;
  }
  check(status);
  give_back(std::move(matcher));
}

}  // namespace attnctl
