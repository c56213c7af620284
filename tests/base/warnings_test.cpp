#include "base/warnings.hpp"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

using namespace attnctl;

TEST_CASE("warnings are counted by code and keep the order and message of the first occurrence") {
  Warnings warnings;
  CHECK(warnings.list().empty());
  warnings.add("b", "first b");
  warnings.add("a", "first a", 5);
  warnings.add("b", "second b", 2);
  const auto list = warnings.list();
  REQUIRE(list.size() == 2);
  CHECK(list[0].code == "b");
  CHECK(list[0].message == "first b");
  CHECK(list[0].count == 3);
  CHECK(list[1].code == "a");
  CHECK(list[1].count == 5);
}

TEST_CASE("warnings from several threads are all counted") {
  Warnings warnings;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) warnings.add("code", "message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(warnings.list().size() == 1);
  CHECK(warnings.list()[0].count == 4000);
}
