#include "tokenizer/regex_dialect.hpp"

#include <unicode/unistr.h>

namespace attnctl {

std::u16string icu_pattern(const PartConfig& /*where*/, std::string_view pattern) {
  if (pattern.empty()) return u"(?:)";  // ICU knows no empty pattern
  const icu::UnicodeString wide =
      icu::UnicodeString::fromUTF8({pattern.data(), static_cast<std::int32_t>(pattern.size())});
  return {wide.getBuffer(), static_cast<std::size_t>(wide.length())};
}

}  // namespace attnctl
