#include "results/results.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

namespace attnctl {
namespace {

template <typename T>
void move_to_end(std::vector<T>& to, std::vector<T>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

template <typename T>
std::string names_of(const std::vector<T>& items) {
  std::string names;
  for (const T& each : items) names += (names.empty() ? "" : ", ") + each.name;
  return names;
}

}  // namespace

void Results::append(Results&& other) {
  move_to_end(document.head.fields, std::move(other.document.head.fields));
  move_to_end(document.sections, std::move(other.document.sections));
  move_to_end(tables, std::move(other.tables));
  move_to_end(arrays, std::move(other.arrays));
  move_to_end(text, std::move(other.text));
  move_to_end(pictures, std::move(other.pictures));
  if (picture_hint.empty()) picture_hint = std::move(other.picture_hint);
}

const Table& table_named(const Results& results, const std::string& name) {
  const auto table = std::ranges::find(results.tables, name, &Table::name);
  if (table == results.tables.end()) {
    fail(Status::usage, "--table: unsupported \"{}\"; this run has {}", escaped(name),
         names_of(results.tables));
  }
  return *table;
}

const View& view_named(const Results& results, const std::string& name) {
  if (results.pictures.empty()) {
    fail(Status::usage, "--format svg: this run has no picture{}",
         results.picture_hint.empty() ? "; use text, json or csv" : "; " + results.picture_hint);
  }
  if (name.empty()) return results.pictures.front();
  const auto view = std::ranges::find(results.pictures, name, &View::name);
  if (view == results.pictures.end()) {
    fail(Status::usage, "--picture: got {}, this run has {}", escaped(name), names_of(results.pictures));
  }
  return *view;
}

Record warning_record(const Warning& warning) {
  Record record;
  record.set("code", warning.code)
      .set("message", warning.message)
      .set("count", static_cast<std::size_t>(warning.count));
  return record;
}

}  // namespace attnctl
