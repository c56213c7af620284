#include "input/input_ids.hpp"

#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace attnctl {

InputIds::Key InputIds::key_of(std::string_view id) {
  constexpr std::uint64_t kOffset = 14695981039346656037U;  // FNV-1a
  constexpr std::uint64_t kPrime = 1099511628211U;
  Key key{std::hash<std::string_view>()(id), kOffset};
  for (const char c : id) key.b = (key.b ^ static_cast<unsigned char>(c)) * kPrime;
  return key;
}

std::string InputIds::next(std::string_view own) {
  std::string number = std::to_string(count_);
  if (own.empty() && count_ == numbered_) {
    ++numbered_;
    ++count_;
    return number;
  }
  std::string id = own.empty() ? std::move(number) : std::string(own);
  const auto as_number = parse_number(id);
  const bool is_earlier_number = as_number && *as_number < numbered_ && std::to_string(*as_number) == id;
  if (is_earlier_number || !seen_.insert(key_of(id)).second) {
    fail(Status::bad_input, "input {}: the id {} is given twice; ids tell inputs apart in the results",
         count_, in_quotes(id));
  }
  ++count_;
  return id;
}

}  // namespace attnctl
