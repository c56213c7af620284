#include "report/npz.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "base/files/output_file.hpp"
#include "base/pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "formats/zip.hpp"
#include "support/temp_dir.hpp"
#include "support/zip_reader.hpp"

using namespace attnctl;
using namespace attnctl::report;

namespace {

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> ramp(std::size_t size) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 1013) / 1013.0F;
  return values;
}

/// Writes three arrays. The second is streamed in random order by the workers of the pool.
void write_sample(OutputFile& out, const NpzOptions& options, Pool& pool) {
  const Shape shape{3, 100, 700};
  const std::vector<float> values = ramp(std::size_t{3} * 100 * 700);
  std::vector<std::size_t> rows(300);
  std::iota(rows.begin(), rows.end(), 0);
  std::ranges::shuffle(rows, std::mt19937(3));
  NpzWriter writer(out, options);
  writer.add("ids_0", make_tensor({4}, std::vector<std::int64_t>{1, -2, 3, 1LL << 40U}));
  ArraySink& sink = writer.add_streamed("pattern_0", shape);
  writer.add("rank", make_tensor({}, std::vector<double>{0.1}));
  pool.run(rows.size(), [&](std::size_t task, std::size_t) {
    sink.write(rows[task] * 700, std::span(values).subspan(rows[task] * 700, 700));
  });
  writer.close();
}

void check_sample(std::string_view file, bool deflated) {
  const std::vector<test::ZipEntry> entries = test::read_zip(file);
  REQUIRE(entries.size() == 3);
  struct Row {
    const char* name;
    const char* header;
    std::string data;
  };
  const std::vector<Row> rows{
      {"ids_0.npy", "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }",
       bytes_of(std::vector<std::int64_t>{1, -2, 3, 1LL << 40U})},
      {"pattern_0.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 100, 700), }",
       bytes_of(ramp(std::size_t{3} * 100 * 700))},
      {"rank.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (), }",
       bytes_of(std::vector<double>{0.1})},
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(entries[i].name == rows[i].name);
    CHECK(entries[i].deflated == deflated);
    CHECK(entries[i].date_time == 0x00210000);  // 1980-01-01 00:00
    const test::NpyFile npy = test::read_npy(entries[i].content);
    CHECK(npy.header == rows[i].header);
    CHECK((npy.data == rows[i].data));
  }
}

}  // namespace

TEST_CASE("an NPZ has the same arrays if stored or deflated, in a file or a pipe") {
  const test::TempDir folder;
  for (const bool compress : {false, true}) {
    std::string first;
    for (const std::size_t threads : {1U, 3U}) {
      Pool pool(threads);
      OutputFile out(folder.path() / "a.npz");
      write_sample(out, {compress, &pool}, pool);
      out.commit();
      const std::string file = test::slurp(folder.path() / "a.npz");
      check_sample(file, compress);
      CHECK((first.empty() || file == first));
      first = file;
    }
    const std::string fifo = (folder.path() / "fifo").string();
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    std::string through_pipe;
    std::thread reader([&] { through_pipe = test::slurp(fifo); });
    {
      Pool pool(1);
      OutputFile out(fifo);
      write_sample(out, {compress, &pool}, pool);
      out.commit();
    }
    reader.join();
    CHECK((through_pipe == first));
    std::filesystem::remove(fifo);
  }
}

TEST_CASE("empty archives and empty arrays are whole") {
  const test::TempDir folder;
  for (const bool compress : {false, true}) {
    OutputFile out(folder.path() / "a.npz");
    NpzWriter writer(out, {compress, nullptr});
    writer.add("none", make_tensor({0, 5}, std::vector<float>{}));
    writer.add_streamed("nothing", {2, 0});
    writer.close();
    out.commit();
    const auto entries = test::read_zip(test::slurp(folder.path() / "a.npz"));
    REQUIRE(entries.size() == 2);
    CHECK(test::read_npy(entries[0].content).header ==
          "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }");
    CHECK(test::read_npy(entries[1].content).data.empty());
  }
  OutputFile out(folder.path() / "b.npz");
  NpzWriter(out).close();
  out.commit();
  CHECK(test::read_zip(test::slurp(folder.path() / "b.npz")).empty());
}

TEST_CASE("more members than a plain zip can count") {
  const test::TempDir folder;
  constexpr int count = 65536;
  {
    OutputFile out(folder.path() / "a.npz");
    NpzWriter writer(out);
    const Tensor one = make_tensor({}, std::vector<float>{1});
    for (int i = 0; i < count; ++i) writer.add(std::to_string(i), one);
    writer.close();
    out.commit();
  }
  const auto entries = test::read_zip(test::slurp(folder.path() / "a.npz"));
  REQUIRE(entries.size() == count);
  CHECK(entries.back().name == "65535.npy");
}

TEST_CASE("an incomplete array, a part written twice and a repeated name throw") {
  const test::TempDir folder;
  OutputFile out(folder.path() / "a.npz");
  NpzWriter writer(out);
  ArraySink& sink = writer.add_streamed("a", {4, 2});
  const std::vector<float> values(8);
  sink.write(0, std::span(values).first(2));
  sink.write(6, std::span(values).first(2));
  CHECK_THROWS_AS(writer.close(), std::logic_error);
  CHECK_THROWS_AS(sink.write(1, std::span(values).first(2)), std::logic_error);
  CHECK_THROWS_AS(sink.write(5, std::span(values).first(2)), std::logic_error);
  CHECK_THROWS_AS(sink.write(7, std::span(values).first(2)), std::logic_error);
  CHECK_THROWS_AS(writer.add_streamed("a", {1}), std::logic_error);
  sink.write(2, std::span(values).first(4));
  writer.close();
  CHECK_THROWS_AS(writer.add_streamed("b", {std::size_t{1} << 40U, std::size_t{1} << 40U}), Error);
}

TEST_CASE("the checksum of pieces in any order equals that of the whole") {
  std::string text(5000, '\0');
  std::mt19937 random(5);
  for (char& c : text) c = static_cast<char>(random());
  const auto bytes = std::as_bytes(std::span(text));
  std::vector<std::size_t> order(50);
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(order, random);
    ScatteredChecksum checksum;
    for (const std::size_t i : order) {
      CHECK_FALSE(checksum.value(5000).has_value());
      checksum.add(i * 100, bytes.subspan(i * 100, 100));
    }
    CHECK(checksum.value(5000) == formats::crc32_of(bytes));
    CHECK_FALSE(checksum.value(5001).has_value());
  }
  // the check value of CRC-32
  CHECK(formats::crc32_of(std::as_bytes(std::span("123456789", 9))) == 0xCBF43926);
}

using namespace attnctl;
using namespace attnctl::report;

TEST_CASE("the checkpoint reader reads the output of the NPZ writer") {
  const test::TempDir folder;
  std::vector<float> values(std::size_t{2} * 3 * 50);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5F;
  for (const bool compress : {false, true}) {
    CAPTURE(compress);
    const auto path = folder.path() / (compress ? "deflated.npz" : "stored.npz");
    {
      OutputFile out(path);
      NpzWriter writer(out, {compress, nullptr});
      ArraySink& sink = writer.add_streamed("pattern_0", {2, 3, 50});
      writer.add("ids_0", make_tensor({3}, std::vector<std::int64_t>{5, -6, 7}));
      writer.add("rank", make_tensor({}, std::vector<double>{0.25}));
      sink.write(150, std::span(values).subspan(150));
      sink.write(0, std::span(values).first(150));
      writer.close();
      out.commit();
    }
    Warnings warnings;
    const auto checkpoint = checkpoint::open_checkpoint(path, warnings);
    CHECK(warnings.list().empty());
    REQUIRE(checkpoint->tensors().size() == 3);

    const checkpoint::TensorView ids = checkpoint->tensor(checkpoint->find("ids_0"));
    CHECK(ids.dtype == DType::i64);
    CHECK(ids.shape == Shape{3});
    const checkpoint::TensorView pattern = checkpoint->tensor(checkpoint->find("pattern_0"));
    CHECK(pattern.dtype == DType::f32);
    CHECK(pattern.shape == Shape{2, 3, 50});
    std::vector<float> read(values.size());
    convert(pattern.dtype, pattern.bytes, read);
    CHECK(read == values);
    const checkpoint::TensorView rank = checkpoint->tensor(checkpoint->find("rank"));
    CHECK(rank.shape.empty());
    double number = 0;
    convert(rank.dtype, rank.bytes, std::span(&number, 1));
    CHECK(number == 0.25);
  }
}
