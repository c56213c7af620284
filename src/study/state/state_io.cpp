#include "study/state/state_io.hpp"

#include <memory>
#include <stdexcept>
#include <type_traits>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace attnctl::study {
namespace {

/// The type of a value in a state file. The numbers must not change. The first six are the alternatives of
/// Cell, in the same order.
enum : std::uint64_t { kNothing, kBool, kInteger, kFloat, kDouble, kText, kList, kRecord };
constexpr int kDeepest = 16;

}  // namespace

void StateWriter::value(const Value& value) {
  if (const auto* const cell = std::get_if<Cell>(&value.data)) {
    number(cell->index());
    std::visit(
        [this](const auto& held) {
          using Held = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<Held, bool>) flag(held);
          if constexpr (std::is_same_v<Held, std::int64_t>) signed_number(held);
          if constexpr (std::is_floating_point_v<Held>) real(static_cast<double>(held));
          if constexpr (std::is_same_v<Held, std::string>) text(held);
        },
        *cell);
  } else if (const auto* const list = std::get_if<List>(&value.data)) {
    number(kList);
    number(list->size());
    for (const Value& item : *list) this->value(item);
  } else if (const auto* const record = std::get_if<std::shared_ptr<const Record>>(&value.data)) {
    number(kRecord);
    number((*record)->fields.size());
    for (const auto& [name, field] : (*record)->fields) {
      text(name);
      this->value(field);
    }
  } else {
    throw std::invalid_argument("a study state cannot hold arrays or tables");
  }
}

void StateReader::damaged(std::string_view what) const {
  fail(Status::bad_input, "{}: the study state is damaged: {}; run the study again", name_, what);
}

void StateReader::expect(std::uint64_t wanted, std::string_view what) {
  const std::uint64_t found = number();
  if (found != wanted) damaged(fmt::format("{}: got {}, need {}", what, found, wanted));
}

std::vector<float> StateReader::floats(std::size_t count) {
  const auto size = checked_mul(count, sizeof(float));
  if (!size) damaged("a row has too many numbers");
  const std::string_view bytes = take(*size);
  std::vector<float> values(count);
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Value StateReader::value(int depth) {
  if (depth > kDeepest) damaged("values are nested too deeply");
  const std::uint64_t type = number();
  if (type == kNothing) return {};
  if (type == kBool) return flag();
  if (type == kInteger) return signed_number();
  if (type == kFloat) return static_cast<float>(real());
  if (type == kDouble) return real();
  if (type == kText) return text();
  if (type == kList) {
    List list(count());
    for (Value& item : list) item = value(depth + 1);
    return list;
  }
  if (type != kRecord) damaged("a value has an unknown type");
  Record record;
  for (std::size_t left = count(); left > 0; --left) {
    std::string name = text();
    record.set(std::move(name), value(depth + 1));
  }
  return record;
}

}  // namespace attnctl::study
