#include "textbook/hull_keys.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "formats/json.hpp"

namespace attnctl {
namespace {

OwnedMatrix<double> matrix_of(const std::vector<std::vector<double>>& rows, Status status,
                              const std::string& source) {
  OwnedMatrix<double> keys(rows.size(), rows.empty() ? 0 : rows.front().size());
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (rows[j].size() != keys.cols()) {
      fail(status, "{}: key {} has {} components, key 0 has {}; all keys need the same number", source, j,
           rows[j].size(), keys.cols());
    }
    std::copy(rows[j].begin(), rows[j].end(), keys.view().row(j).begin());
  }
  return keys;
}

double parse_component(std::string_view text, const std::string& name) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) {
    fail(Status::usage, "{}: got '{}', need numbers such as \"10,0;0,10\", or a .npy or .json file", name,
         escaped(text));
  }
  return value;
}

}  // namespace

OwnedMatrix<double> parse_keys(std::string_view text, const std::string& name) {
  std::vector<std::vector<double>> rows;
  for (const std::string_view row : split(text, ';')) {
    rows.emplace_back();
    for (const std::string_view component : split(row, ','))
      rows.back().push_back(parse_component(component, name));
  }
  return matrix_of(rows, Status::usage, name);
}

OwnedMatrix<double> parse_json_keys(const std::string& document, const std::string& name) {
  const nlohmann::ordered_json tree = parse_json(name, document);
  std::vector<std::vector<double>> rows;
  const auto refuse = [&](const std::string& place) {
    fail(Status::bad_input, "{}: {}: need an array of arrays of numbers", name, place);
  };
  if (!tree.is_array()) refuse("/");
  for (const auto& row : tree) {
    if (!row.is_array()) refuse(fmt::format("/{}", rows.size()));
    std::vector<double>& key = rows.emplace_back();
    for (const auto& value : row) {
      if (!value.is_number()) refuse(fmt::format("/{}/{}", rows.size() - 1, key.size()));
      key.push_back(value.get<double>());
    }
  }
  return matrix_of(rows, Status::bad_input, name);
}

}  // namespace attnctl
