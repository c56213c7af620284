// Prints the median time of an analysis of a sentence with the C++ library, in milliseconds, for figures.py.
// Usage: latency MODEL

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>

#include <attnctl/attnctl.hpp>

int main(int argc, char** argv) {
  try {
    const attn::Model model = attn::Model::open(argc > 1 ? argv[1] : "data/tiny-bert");
    std::array<double, 400> times{};
    for (double& time : times) {
      const auto begin = std::chrono::steady_clock::now();
      const attn::Batch batch(model,
                              {{.text = "The animal didn't cross the street because it was too tired."}});
      (void)attn::analyze(batch, {.include = {"metrics", "patterns"}, .run = {.heads = {}, .threads = 1}});
      time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    }
    std::sort(times.begin() + 200, times.end());  // the first half warms up
    std::printf("%.4f\n", times[300]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "latency: %s\n", error.what());
    return 1;
  }
}
