#include <vector>

#include <doctest/doctest.h>

#include "base/files/output_file.hpp"
#include "checkpoint/checkpoint.hpp"
#include "report/npz.hpp"
#include "support/temp_dir.hpp"

using namespace attnctl;

TEST_CASE("what the NPZ writer writes, the reader of checkpoints reads") {
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
      writer.add("ids_0", make_array({3}, std::vector<std::int64_t>{5, -6, 7}));
      writer.add("rank", make_array({}, std::vector<double>{0.25}));
      sink.write(150, std::span(values).subspan(150));
      sink.write(0, std::span(values).first(150));
      writer.close();
      out.commit();
    }
    Warnings warnings;
    const auto checkpoint = open_checkpoint(path, warnings);
    CHECK(warnings.list().empty());
    REQUIRE(checkpoint->tensors().size() == 3);

    const TensorView ids = checkpoint->tensor(checkpoint->find("ids_0"));
    CHECK(ids.dtype == DType::i64);
    CHECK(ids.shape == Shape{3});
    const TensorView pattern = checkpoint->tensor(checkpoint->find("pattern_0"));
    CHECK(pattern.dtype == DType::f32);
    CHECK(pattern.shape == Shape{2, 3, 50});
    std::vector<float> read(values.size());
    convert(pattern.dtype, pattern.bytes, read);
    CHECK(read == values);
    const TensorView rank = checkpoint->tensor(checkpoint->find("rank"));
    CHECK(rank.shape.empty());
    double number = 0;
    convert(rank.dtype, rank.bytes, std::span(&number, 1));
    CHECK(number == 0.25);
  }
}
