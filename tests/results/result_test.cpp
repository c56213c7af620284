#include "results/result.hpp"

#include <stdexcept>

#include <doctest/doctest.h>

using namespace attnctl;

TEST_CASE("a table hands out its rows") {
  const Table table = make_table("t", {"a", "b"}, {{std::int64_t{1}, std::string("x")}, {2.5F, Cell{}}});
  REQUIRE(table.rows == 2);
  std::vector<Cell> cells(2);
  table.row(1, cells);
  CHECK(std::get<float>(cells[0]) == 2.5F);
  CHECK(std::holds_alternative<std::monostate>(cells[1]));
  table.row(0, cells);
  CHECK(std::get<std::string>(cells[1]) == "x");
  CHECK_THROWS_AS((void)make_table("t", {"a", "b"}, {{true}}), std::invalid_argument);
}

TEST_CASE("an array shares what it holds") {
  Array copy;
  {
    const Array array = make_array({2, 2}, std::vector<float>{1, 2, 3, 4});
    copy = array;
  }
  CHECK(copy.size() == 4);
  CHECK(std::get<std::span<const float>>(copy.values)[3] == 4.0F);
  CHECK(make_array({}, std::vector<double>{1.0}).size() == 1);
  CHECK(make_array({0, 5}, std::vector<std::int64_t>{}).size() == 0);
  CHECK_THROWS_AS((void)make_array({2, 2}, std::vector<float>{1, 2, 3}), std::invalid_argument);
}

TEST_CASE("a record keeps the order of its fields") {
  const Value value = Record().set("b", 1).set("a", "text");
  const auto& record = *std::get<std::shared_ptr<const Record>>(value.data);
  REQUIRE(record.fields.size() == 2);
  CHECK(record.fields[0].first == "b");
  CHECK(std::get<std::int64_t>(std::get<Cell>(record.fields[0].second.data)) == 1);
}
