#include "study/measures/token_names.hpp"

#include "input/batch.hpp"

namespace attnctl {
namespace {

std::string number(std::int64_t id) {
  return "#" + std::to_string(id);
}

}  // namespace

void TokenNames::add(const Sequence& sequence, std::size_t place) {
  const std::int64_t id = sequence.ids[place];
  if (!names_.contains(id)) names_[id] = sequence.tokens.empty() ? number(id) : sequence.tokens[place];
}

std::string TokenNames::of(std::int64_t id) const {
  const auto name = names_.find(id);
  return name == names_.end() ? number(id) : name->second;
}

void TokenNames::save(StateWriter& out) const {
  out.number(names_.size());
  for (const auto& [id, name] : names_) {
    out.signed_number(id);
    out.text(name);
  }
}

void TokenNames::load(StateReader& in) {
  names_.clear();
  for (std::size_t left = in.count(); left > 0; --left) {
    const std::int64_t id = in.signed_number();
    names_[id] = in.text();
  }
}

}  // namespace attnctl
