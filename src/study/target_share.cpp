#include "study/target_share.hpp"

#include "study/results.hpp"
#include "study/state/state_io.hpp"

namespace attnctl {

void TargetShare::merge(const TargetShare& other) {
  rows += other.rows;
  without += other.without;
  weight.merge(other.weight);
  total.merge(other.total);
  uniform.merge(other.uniform);
}

void TargetShare::save(StateWriter& out) const {
  out.number(rows);
  out.number(without);
  weight.save(out);
  total.save(out);
  uniform.save(out);
}

void TargetShare::load(StateReader& in) {
  rows = in.number();
  without = in.number();
  weight.load(in);
  total.load(in);
  uniform.load(in);
}

std::optional<double> TargetShare::value() const {
  const double all = total.value();
  return all > 0 ? std::optional(weight.value() / all) : std::nullopt;
}

Cell TargetShare::share() const {
  return real_cell(value());
}

Cell TargetShare::uniform_share() const {
  return rows > 0 ? real_cell(uniform.value() / static_cast<double>(rows)) : Cell();
}

}  // namespace attnctl
