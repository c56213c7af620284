#include "study/corpus/token_frequencies.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"

namespace attnctl {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 30;

/// Parser of the lines of a frequency file.
class FrequencyLines {
 public:
  FrequencyLines(std::string name, const Vocabulary& vocabulary, std::size_t ids)
      : name_(std::move(name)), vocabulary_(vocabulary), ids_(ids) {}

  [[nodiscard]] TokenFrequencies read(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
    while (!text.empty()) {
      ++line_;
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      take(line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    if (lines_.empty()) fail(Status::bad_input, "{}: holds no counts; need lines TOKEN<TAB>COUNT", name_);
    return std::move(frequencies_);
  }

 private:
  void take(std::string_view line) {
    if (line_ == 1 && (line == "token\tcount" || line == "id\tcount")) {
      by_id_ = line == "id\tcount";
      return;
    }
    const std::size_t tab = line.rfind('\t');
    const auto count = tab == std::string_view::npos ? std::nullopt : parse_number(line.substr(tab + 1));
    if (!count) bad(line, "need TOKEN<TAB>COUNT with a whole number from 0");
    const std::string_view token = line.substr(0, tab);
    const std::int64_t id = id_of(token);
    const auto [first, inserted] = lines_.try_emplace(id, line_);
    if (!inserted)
      bad(token, fmt::format("need one count per token; line {} has the same token", first->second));
    frequencies_.set(id, *count);
  }

  [[nodiscard]] std::int64_t id_of(std::string_view token) const {
    if (by_id_) {
      const auto id = parse_number(token);
      if (!id || *id >= ids_) bad(token, fmt::format("need an id of the model, 0 to {}", ids_ - 1));
      return static_cast<std::int64_t>(*id);
    }
    const auto id = vocabulary_.id(token);
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= ids_)
      bad(token, "need a token of the model, written as by attnctl tokenize, or the first line id<TAB>count");
    return *id;
  }

  [[noreturn]] void bad(std::string_view found, std::string_view need) const {
    fail(Status::bad_input, "{}: line {}: got {}, {}", name_, line_, in_quotes(found), need);
  }

  std::string name_;
  const Vocabulary& vocabulary_;
  std::size_t ids_;
  bool by_id_ = false;
  std::size_t line_ = 0;
  std::map<std::int64_t, std::size_t> lines_;  // first line of each id
  TokenFrequencies frequencies_;
};

}  // namespace

bool is_ordinary(const Sequence& sequence, std::size_t token) {
  if (!sequence.special.empty() && sequence.special[token] != 0) return false;
  return sequence.key_visible.empty() || sequence.key_visible[token] != 0;
}

void TokenFrequencies::add(const Sequence& sequence) {
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    if (is_ordinary(sequence, i)) set(sequence.ids[i], of(sequence.ids[i]) + 1);
  }
}

void TokenFrequencies::set(std::int64_t id, std::uint64_t count) {
  const auto place = static_cast<std::size_t>(id);
  if (place >= counts_.size()) counts_.resize(place + 1);
  counts_[place] = count;
}

std::uint64_t TokenFrequencies::of(std::int64_t id) const {
  const auto place = static_cast<std::size_t>(id);
  return place < counts_.size() ? counts_[place] : 0;
}

std::vector<std::size_t> rarest_tokens(const Sequence& sequence, const TokenFrequencies& frequencies) {
  std::vector<std::size_t> places;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < sequence.ids.size(); ++i) {
    if (!is_ordinary(sequence, i)) continue;
    const std::uint64_t count = frequencies.of(sequence.ids[i]);
    if (count > least) continue;
    if (count < least) places.clear();
    least = count;
    places.push_back(i);
  }
  return places;
}

TokenFrequencies read_frequencies(const std::filesystem::path& path, const Vocabulary& vocabulary,
                                  std::size_t ids) {
  const std::string text = read_file(path, kLargestFile);
  return FrequencyLines(escaped(path.string()), vocabulary, ids).read(text);
}

}  // namespace attnctl
