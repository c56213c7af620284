#include "study/measures/drawn_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"

namespace attnctl {
namespace {

/// Whether a block knows the rows drawn so far, and the number of rows that all blocks kept.
struct Looks {
  bool ahead = false;
  std::size_t kept = 0;
};

/// Returns the sample of a study with these blocks, 50 rows per block.
DrawnRows drawn_from(const std::vector<std::uint64_t>& blocks, std::size_t most, Looks* looks = nullptr) {
  DrawnRows all;
  all.set_most(most);
  for (const std::uint64_t block : blocks) {
    DrawnRows own;
    own.set_most(most);
    const BlockDraw draw(7, block, 50, most, looks != nullptr && looks->ahead ? all.end() : std::nullopt);
    for (std::size_t row = 0; row < 50; ++row) {
      const auto& key = draw.keys()[row];
      if (!key) continue;
      own.add(*key, {static_cast<float>(block), static_cast<float>(row)});
      if (looks != nullptr) ++looks->kept;
    }
    all.merge(own);
  }
  return all;
}

std::string bytes_of(const DrawnRows& rows) {
  StateWriter out;
  rows.save(out);
  return out.bytes();
}

}  // namespace

TEST_CASE("rows are drawn from all of a corpus, whatever the order of its blocks") {
  const DrawnRows forwards = drawn_from({0, 1, 2, 3, 4, 5, 6, 7}, 40);
  DrawnRows shards = drawn_from({6, 1, 4}, 40);
  shards.merge(drawn_from({7, 3}, 40));
  shards.merge(drawn_from({5, 0, 2}, 40));
  CHECK(forwards.rows().size() == 40);
  CHECK(bytes_of(forwards) == bytes_of(shards));
  for (const auto& [key, row] : forwards.rows()) {
    CHECK(row == std::vector<float>{static_cast<float>(key.block), static_cast<float>(key.row)});
  }
  CHECK(drawn_from({0, 1}, 1000).rows().size() == 100);
  CHECK(drawn_from({0}, 0).rows().empty());
}

TEST_CASE("a block that knows what was drawn before it keeps fewer rows, and the same are drawn") {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < 40; ++block) blocks.push_back(block);
  Looks blind;
  Looks knowing{.ahead = true};
  const DrawnRows all = drawn_from(blocks, 60, &blind);
  CHECK(bytes_of(drawn_from(blocks, 60, &knowing)) == bytes_of(all));
  CHECK(blind.kept == 2000);
  CHECK(knowing.kept < 500);
  CHECK(knowing.kept >= 60);
  CHECK_FALSE(drawn_from({0}, 51).end().has_value());
}

TEST_CASE("each row is drawn about as often as any other") {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t block = 0; block < 400; ++block) blocks.push_back(block);
  std::vector<std::size_t> of_place(50), of_part(4);
  const DrawnRows drawn = drawn_from(blocks, 4000);  // of 20000 rows: 80 per row index, 1000 per part
  for (const auto& [key, row] : drawn.rows()) {
    ++of_place[key.row];
    ++of_part[key.block / 100];
  }
  for (const std::size_t count : of_place) {
    CHECK(count > 40);  // within 5 standard deviations
    CHECK(count < 120);
  }
  for (const std::size_t count : of_part) {
    CHECK(count > 860);
    CHECK(count < 1140);
  }
}

TEST_CASE("rows that were drawn come back from a state, and damage is found") {
  const DrawnRows rows = drawn_from({0, 1, 2}, 20);
  const std::string bytes = bytes_of(rows);
  DrawnRows again;
  StateReader in(bytes, "a.state");
  again.load(in, 2);
  CHECK(in.at_end());
  CHECK(bytes_of(again) == bytes);
  for (const std::size_t size : {std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    StateReader cut(std::string_view(bytes).substr(0, size), "a.state");
    CHECK_THROWS_AS(again.load(cut, 2), Error);
  }
  StateWriter unordered;
  unordered.number(2);
  unordered.number(2);
  for (const std::uint64_t drawn : {9U, 3U}) {
    for (const std::uint64_t part : {drawn, std::uint64_t{0}, std::uint64_t{0}}) unordered.number(part);
    unordered.floats(std::vector<float>{1});
  }
  StateReader reader(unordered.bytes(), "a.state");
  CHECK_THROWS_AS(again.load(reader, 1), Error);
}

}  // namespace attnctl
