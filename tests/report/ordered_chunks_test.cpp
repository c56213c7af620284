#include "report/ordered_chunks.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include <doctest/doctest.h>

using namespace attnctl;

TEST_CASE("chunks are written in their order, at every number of threads") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    Pool pool(threads);
    std::string all;
    write_in_order(
        &pool, 500, [](std::size_t chunk, std::string& text) { text += std::to_string(chunk) + ' '; },
        [&](const std::string& text) { all += text; });
    std::string want;
    for (int chunk = 0; chunk < 500; ++chunk) want += std::to_string(chunk) + ' ';
    CHECK(all == want);
  }
}

TEST_CASE("a slow reader holds the workers back: one chunk each, however many there are") {
  constexpr std::size_t threads = 4;
  constexpr std::size_t chunks = 64;
  Pool pool(threads);
  std::atomic<std::size_t> formatted = 0;
  std::size_t written = 0;
  std::size_t most = 0;
  write_in_order(
      &pool, chunks, [&](std::size_t, std::string&) { ++formatted; },
      [&](const std::string&) {
        // The writer waits until every worker has formatted as many chunks as it may.
        while (formatted < std::min(chunks, written + threads)) std::this_thread::yield();
        most = std::max(most, formatted - written);
        ++written;
      });
  CHECK(written == chunks);
  CHECK(most == threads);
}

TEST_CASE("a reader that goes away ends the work of all") {
  struct Gone {};
  Pool pool(4);
  std::atomic<std::size_t> formatted = 0;
  std::size_t written = 0;
  CHECK_THROWS_AS(write_in_order(
                      &pool, 100000, [&](std::size_t, std::string&) { ++formatted; },
                      [&](const std::string&) {
                        if (++written == 10) throw Gone{};
                      }),
                  Gone);
  CHECK(written == 10);
  CHECK(formatted < 10 + 4);
  CHECK_THROWS_AS(write_in_order(
                      &pool, 100, [&](std::size_t, std::string&) { throw std::runtime_error("bad"); },
                      [&](const std::string&) { ++written; }),
                  std::runtime_error);
  CHECK(written == 10);
}
