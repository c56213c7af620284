#include "tokenizer/unicode/normal_form.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

// The Unicode version of the reference. By Unicode's stability policy the normal forms of its characters have
// not changed since. The reference has no mapping and combining class 0 for later characters.
constexpr unsigned kReferenceVersion = 9;
constexpr std::int32_t kLongestDecomposition = 64;  // UTF-16 units; the longest has 18

using Instance = const UNormalizer2* (*)(UErrorCode*);

const UNormalizer2* instance(Instance get) {
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* normalizer = get(&status);
  if (U_FAILURE(status)) fail(Status::environment, "ICU has no normalization data: {}", u_errorName(status));
  return normalizer;
}

bool is_known(char32_t c) {
  return unicode::is_as_old_as(c, kReferenceVersion);
}

std::uint8_t combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const std::uint8_t value = u_getCombiningClass(static_cast<UChar32>(c));
  return value != 0 && is_known(c) ? value : 0;
}

void decompose(const UNormalizer2* normalizer, char32_t c, std::vector<ChangedCharacter>& out) {
  std::array<UChar, kLongestDecomposition> units{};
  UErrorCode status = U_ZERO_ERROR;
  const std::int32_t size = unorm2_getDecomposition(normalizer, static_cast<UChar32>(c), units.data(),
                                                    kLongestDecomposition, &status);
  if (size < 0 || U_FAILURE(status) || !is_known(c)) {
    out.push_back({c, 0});
    return;
  }
  for (std::int32_t i = 0; i < size;) {
    const int change = i == 0 ? 0 : 1;
    UChar32 part = 0;
    U16_NEXT(units, i, size, part);
    out.push_back({static_cast<char32_t>(part), change});
  }
}

/// Sorts the marks between two characters of combining class 0 by their classes.
void order_marks(std::vector<ChangedCharacter>& run) {
  const auto is_starter = [](const ChangedCharacter& x) { return combining_class(x.c) == 0; };
  for (auto first = run.begin(); first != run.end();) {
    first = std::find_if_not(first, run.end(), is_starter);
    const auto last = std::find_if(first, run.end(), is_starter);
    std::stable_sort(first, last, [](const ChangedCharacter& a, const ChangedCharacter& b) {
      return combining_class(a.c) < combining_class(b.c);
    });
    first = last;
  }
}

char32_t composed(const UNormalizer2* normalizer, char32_t a, char32_t b) {
  const UChar32 pair = unorm2_composePair(normalizer, static_cast<UChar32>(a), static_cast<UChar32>(b));
  return pair >= 0 && is_known(static_cast<char32_t>(pair)) ? static_cast<char32_t>(pair) : 0;
}

/// Returns whether `c` is in a block of ideographs and the like, which have no mappings.
bool has_no_mappings(char32_t c) {
  return (c >= 0x3400 && c < 0xA000) || (c >= 0x17000 && c < 0x1B000) || (c >= 0x20000 && c < 0x2F800);
}

}  // namespace

NormalForm::NormalForm(Kind kind) : kind_(kind) {
  struct Row {
    Instance instance;
    UProperty quick_check;
  };
  static constexpr Row rows[] = {{unorm2_getNFCInstance, UCHAR_NFC_QUICK_CHECK},
                                 {unorm2_getNFDInstance, UCHAR_NFD_QUICK_CHECK},
                                 {unorm2_getNFKCInstance, UCHAR_NFKC_QUICK_CHECK},
                                 {unorm2_getNFKDInstance, UCHAR_NFKD_QUICK_CHECK}};
  const UNormalizer2* const normalizer = instance(rows[kind].instance);
  std::vector<std::uint8_t> all(unicode::kCodePoints, 0);
  for (char32_t c = 0; c < 0x30000; ++c) {
    if (has_no_mappings(c)) continue;
    const auto point = static_cast<UChar32>(c);
    std::uint8_t bits = 0;
    if (u_getIntPropertyValue(point, rows[kind].quick_check) == UNORM_NO) bits |= kChanges;
    if (unorm2_hasBoundaryBefore(normalizer, point) == 0) bits |= kJoins;
    if (bits != 0 && is_known(c)) all[c] = bits;
  }
  bits_ = unicode::CodePointTable<std::uint8_t>(all);
}

void NormalForm::apply(std::span<const char32_t> run, std::vector<ChangedCharacter>& out) const {
  const bool compatible = kind_ == nfkc || kind_ == nfkd;
  const UNormalizer2* normalizer = instance(compatible ? unorm2_getNFKCInstance : unorm2_getNFCInstance);
  out.clear();
  for (const char32_t c : run) decompose(normalizer, c, out);
  order_marks(out);
  if (kind_ == nfc || kind_ == nfkc) compose(out);
}

void NormalForm::compose(std::vector<ChangedCharacter>& run) const {
  const UNormalizer2* normalizer = instance(unorm2_getNFCInstance);
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t kept = 0;
  std::size_t starter = kNone;  // index of the last character of class 0
  int last_class = 0;           // class of the last mark kept after the starter; 0: there is none
  for (std::size_t i = 0; i < run.size(); ++i) {
    const ChangedCharacter mark = run[i];
    const int mark_class = combining_class(mark.c);
    // A mark of the same or a higher class in between blocks the composition.
    const bool reaches = starter != kNone && (last_class == 0 || last_class < mark_class);
    const char32_t pair = reaches ? composed(normalizer, run[starter].c, mark.c) : 0;
    if (pair != 0) {
      run[starter] = {pair, run[starter].change + mark.change - 1};
      continue;
    }
    if (mark_class == 0) starter = kept;
    last_class = mark_class;
    run[kept++] = mark;
  }
  run.resize(kept);
}

}  // namespace attnctl
