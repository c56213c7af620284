#include <algorithm>

#include "base/error.hpp"
#include "study/corpus/corpus_blocks.hpp"

namespace attnctl {
namespace {

/// A window: the text tokens [first, last), with the special tokens [0, before) and [end, n) at both ends.
struct Window {
  std::size_t before = 0, first = 0, last = 0, end = 0, n = 0;

  template <typename T>
  void cut(std::vector<T>& values) const {
    if (values.size() != n) return;  // the vector is empty
    std::vector<T> kept(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(before));
    const auto at = [&](std::size_t place) { return values.begin() + static_cast<std::ptrdiff_t>(place); };
    kept.insert(kept.end(), at(first), at(last));
    kept.insert(kept.end(), at(end), values.end());
    values = std::move(kept);
  }
};

Sequence cut(const Sequence& sequence, const Window& window) {
  Sequence part = sequence;
  window.cut(part.ids);
  window.cut(part.tokens);
  window.cut(part.token_type_ids);
  window.cut(part.special);
  window.cut(part.separator);
  window.cut(part.offsets);
  window.cut(part.words);
  window.cut(part.key_visible);
  part.shared_tokens.clear();
  for (Sequence::SharedToken shared : sequence.shared_tokens) {
    if (shared.token < window.first || shared.token >= window.last) continue;
    shared.token -= window.first - window.before;
    part.shared_tokens.push_back(shared);
  }
  return part;
}

}  // namespace

std::vector<Sequence> windows_of(const Sequence& sequence, std::size_t most, std::size_t stride) {
  const std::size_t n = sequence.ids.size();
  if (n <= most) return {sequence};
  if (sequence.text_pair)
    fail(Status::bad_input, "input {}: windows (--stride) of a pair of texts are unsupported",
         escaped(sequence.id));
  Window window{.before = 0, .first = 0, .last = 0, .end = n, .n = n};
  const auto added = [&](std::size_t place) { return sequence.text && sequence.special[place] != 0; };
  while (window.before < n && added(window.before)) ++window.before;
  while (window.end > window.before && added(window.end - 1)) --window.end;
  const std::size_t beside = window.before + (n - window.end);
  if (beside >= most) {
    fail(Status::bad_input,
         "input {}: windows of {} tokens have no room for text beside the {} that the tokenizer adds",
         escaped(sequence.id), most, beside);
  }
  std::vector<Sequence> parts;
  for (window.first = window.before;; window.first += stride) {
    window.last = std::min(window.first + most - beside, window.end);
    parts.push_back(cut(sequence, window));
    if (window.last == window.end) return parts;
  }
}

}  // namespace attnctl
