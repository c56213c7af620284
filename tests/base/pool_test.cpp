#include "base/pool.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "support/temp_dir.hpp"

using attnctl::Pool;

TEST_CASE("a pool of any size runs each task once") {
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    Pool pool(threads);
    CHECK(pool.size() == threads);
    for (const std::size_t tasks : {0U, 1U, 2U, 7U, 1000U}) {
      CAPTURE(threads);
      CAPTURE(tasks);
      std::vector<std::atomic<int>> calls(tasks);
      std::atomic<bool> worker_fits{true};
      pool.run(tasks, [&](std::size_t task, std::size_t worker) {
        ++calls[task];
        if (worker >= threads) worker_fits = false;
      });
      CHECK(worker_fits);
      for (const auto& count : calls) CHECK(count == 1);
    }
  }
}

TEST_CASE("the caller sees all writes of the workers") {
  Pool pool(4);
  std::vector<std::size_t> values(64);  // not atomic: run() must order the accesses
  for (std::size_t round = 1; round <= 500; ++round) {
    pool.run(values.size(), [&](std::size_t task, std::size_t) { values[task] += round; });
  }
  for (const std::size_t value : values) CHECK(value == 500 * 501 / 2);
}

TEST_CASE("no two workers have the same number at once") {
  Pool pool(4);
  std::vector<std::size_t> per_worker(pool.size());
  pool.run(5000, [&](std::size_t, std::size_t worker) { ++per_worker[worker]; });
  std::size_t sum = 0;
  for (const std::size_t count : per_worker) sum += count;
  CHECK(sum == 5000);
}

TEST_CASE("the exception of the lowest task reaches the caller, and the pool stays usable") {
  for (const std::size_t threads : {1U, 3U}) {
    CAPTURE(threads);
    Pool pool(threads);
    std::atomic<std::size_t> begun{0};
    try {
      pool.run(10000, [&](std::size_t task, std::size_t) {
        ++begun;
        throw std::runtime_error(std::to_string(task));
      });
      FAIL("run() must throw");
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()) == "0");
    }
    CHECK(begun <= threads);  // no task starts after an exception
    CHECK_THROWS_AS(pool.run(4, [](std::size_t, std::size_t) { throw std::bad_alloc(); }), std::bad_alloc);
    CHECK_THROWS_AS(pool.run(4,
                             [](std::size_t task, std::size_t) {
                               if (task == 3) attnctl::fail(attnctl::Status::limit, "task {}", task);
                             }),
                    attnctl::Error);
    std::atomic<std::size_t> done{0};
    pool.run(100, [&](std::size_t, std::size_t) { ++done; });
    CHECK(done == 100);
  }
}

TEST_CASE("at least one thread is available") {
  CHECK(attnctl::available_threads() >= 1);
}

TEST_CASE("cpu.max is converted to cores") {
  struct Row {
    std::string_view text;
    std::optional<std::size_t> want;
  };
  for (const Row& row : {
           Row{"max 100000", std::nullopt},
           Row{"200000 100000", 2},
           Row{"150000 100000", 2},
           Row{"1000 100000", 1},
           Row{"0 100000", 1},
           Row{"", std::nullopt},
           Row{"100000", std::nullopt},
           Row{"100000 0", std::nullopt},
           Row{"-1 100000", std::nullopt},
           Row{"99999999999999999999999 1", std::nullopt},
       }) {
    CAPTURE(row.text);
    CHECK(attnctl::cores_of_cpu_max(row.text) == row.want);
  }
}

TEST_CASE("the smallest quota of a cgroup and its ancestors applies") {
  const attnctl::test::TempDir root;
  const auto write = [&](const std::string& group, const std::string& text) {
    std::filesystem::create_directories(root.path() / group);
    std::ofstream(root.path() / group / "cpu.max") << text << "\n";
  };
  write("a/b", "800000 100000");
  write("a", "300000 100000");
  write("a/free", "max 100000");
  CHECK(attnctl::cores_of_cgroup(root.path(), "/a/b") == 3);
  CHECK(attnctl::cores_of_cgroup(root.path(), "/a/free") == 3);
  CHECK(attnctl::cores_of_cgroup(root.path(), "/") == std::nullopt);
  CHECK(attnctl::cores_of_cgroup(root.path(), "/missing") == std::nullopt);
  write(".", "100000 100000");
  CHECK(attnctl::cores_of_cgroup(root.path(), "/a/b") == 1);
}
