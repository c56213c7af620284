#include "study/corpus/token_frequencies.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/files/input_file.hpp"
#include "base/text.hpp"

namespace attnctl {
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
  constexpr std::size_t largest_file = std::size_t{1} << 30;
  const std::string file = read_file(path, largest_file);
  const std::string name = escaped(path.string());
  std::string_view text = file;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  TokenFrequencies frequencies;
  std::map<std::size_t, std::size_t> lines_of_ids;  // first line of each id
  bool by_id = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (i == 0 && (line == "token\tcount" || line == "id\tcount")) {
      by_id = line == "id\tcount";
      continue;
    }
    const auto bad = [&](std::string_view found, std::string_view need) {
      fail(Status::bad_input, "{}: line {}: got {}, {}", name, i + 1, in_quotes(found), need);
    };
    const std::size_t tab = line.rfind('\t');
    const auto count = tab == std::string_view::npos ? std::nullopt : parse_number(line.substr(tab + 1));
    if (!count) bad(line, "need TOKEN<TAB>COUNT with a whole number from 0");
    const std::string_view token = line.substr(0, tab);
    std::size_t id = ids;
    if (by_id) {
      id = parse_number(token).value_or(ids);
      if (id >= ids) bad(token, fmt::format("need an id of the model, 0 to {}", ids - 1));
    } else {
      id = static_cast<std::size_t>(vocabulary.id(token).value_or(-1));  // -1 becomes the largest number
      if (id >= ids)
        bad(token,
            "need a token of the model, written as by attnctl tokenize, or the first line id<TAB>count");
    }
    const auto [first, inserted] = lines_of_ids.try_emplace(id, i + 1);
    if (!inserted)
      bad(token, fmt::format("need one count per token; line {} has the same token", first->second));
    frequencies.set(static_cast<std::int64_t>(id), *count);
  }
  if (lines_of_ids.empty()) fail(Status::bad_input, "{}: holds no counts; need lines TOKEN<TAB>COUNT", name);
  return frequencies;
}

}  // namespace attnctl
