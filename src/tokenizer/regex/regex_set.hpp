#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <unicode/uniset.h>

namespace attnctl::regex_set {

/// Sets of code points as Oniguruma 6.9.10 has them (Unicode 16).

/// \w, \s, \d, \h by their letter, as they are in a class of characters; nullopt for another letter.
std::optional<icu::UnicodeSet> of_letter(char32_t letter);
/// \w by itself, and what \b asks for: with the six superscripts and fractions of Latin-1.
const icu::UnicodeSet& word_by_itself();
/// The name in [[:name:]]; nullopt for an unknown one.
std::optional<icu::UnicodeSet> of_posix_bracket(std::string_view name);
/// The name in \p{name}: a general category, a script, or one of the names of brackets.
std::optional<icu::UnicodeSet> of_property(std::string_view name);

/// Adds the single characters that are equal to those of the set but for case. False where one of them is
/// also equal to several ("ß" and "ss"), which no set can say.
bool close_over_case(icu::UnicodeSet& set);
/// Does a run of letters hold what is equal to one other character but for case ("ss", "fi")?
bool folds_together(const std::u32string& run);

/// The set as a class of ICU's regular expressions, with nothing that needs interpretation.
std::u16string to_pattern(const icu::UnicodeSet& set);

}  // namespace attnctl::regex_set
