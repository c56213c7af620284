#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "tokenizer/files/tokenizer_file.hpp"

namespace attnctl::test {
namespace {

// Expected bits are those of Hugging Face tokenizers 0.23.3 for a Unigram vocabulary with these scores. Some
// are not the nearest double.
TEST_CASE("scores are rounded as in the reference") {
  struct Row {
    std::string digits;
    std::uint64_t bits;
  };
  for (const Row& row : {
           Row{"0.0", 0x0000000000000000},
           Row{"-0.0", 0x8000000000000000},
           Row{"0.1", 0x3FB999999999999A},
           Row{"-7.2389896778605625", 0xC01CF4B9B5C9F885},
           Row{"-7.2897727006421835", 0xC01D28BA2CC2208B},
           Row{"-13.52988338470459", 0xC02B0F4CE0000000},
           Row{"1.5", 0x3FF8000000000000},
           Row{"2.5e-3", 0x3F647AE147AE147B},
           Row{"123456789012345678901234567890.5", 0x45F8EE90FF6C373E},
           Row{"18446744073709551616", 0x43F0000000000000},
           Row{"18446744073709551615.99", 0x43F0000000000000},
           Row{"1844674407370955161600.05", 0x4459000000000000},
           Row{"-1e-7", 0xBE7AD7F29ABCAF48},
           Row{"4.35E+2", 0x407B300000000000},
           Row{"0.30000000000000004", 0x3FD3333333333334},
           Row{"1e-320", 0x00000000000007E8},
           Row{"3e-308", 0x00159283684DBA76},
           Row{"1.7976931348623157e308", 0x7FEFFFFFFFFFFFFF},
           Row{"9007199254740993.0", 0x4340000000000001},
           Row{"0.000000000000000000000000000001234567890123456789012345", 0x39B90A3E33C69AC3},
           Row{"123456789012345678.123456789012345678", 0x437B69B4BA630F34},
           Row{"5e-324", 0x0000000000000001},
           Row{"1e22", 0x4480F0CF064DD592},
           Row{"1e23", 0x44B52D02C7E14AF6},
           Row{"-2.2250738585072011e-308", 0x8010000000000000},
           Row{"1E-400", 0x0000000000000000},
           Row{"-12.3456789012345678901", 0xC028B0FCD32F707A},
           Row{"-3.5407213460615177", 0xC00C5365B68CAAA2},
           Row{"-1.5474905134607368", 0xBFF8C28569A2F220},
           Row{"-5.940873639160215", 0xC017C3746117724F},
           Row{"-2.324584062036154", 0xC00298BF8759FC25},
           Row{"-0.9977264351938486", 0xBFEFED5FFD30644C},
           Row{"-6.023865217276122", 0xC01818701F9ED9FD},
           Row{"-13.769325646315783", 0xC02B89E50D15CCFB},
           Row{"-12.006785272437128", 0xC02803795BF66C80},
           Row{"-11.477439037581577", 0xC026F472E3B87E40},
           Row{"-3.3289226353547647", 0xC00AA1A230CE1A50},
           Row{"-6.0974965372762036e-04", 0xBF43FAF369272800},
           Row{"-4.2359285904403007339e-03", 0xBF7159B16C39E2F8},
           Row{"-5.33550e-15", 0xBCF80769A5E8DC96},
           Row{"-8.4e-02", 0xBFB5810624DD2F1B},
           Row{"9.94943965679901907606e+02", 0x408F178D3DE0DDCD},
           Row{"2.95996166337133555e+13", 0x42BAEBB2A28B715B},
           Row{"-7.0987448100e+12", 0xC299D338A6A84000},
           Row{"-8.671231e+27", 0xC5BC04AC966A8AF2},
           Row{"2.700382e-03", 0x3F661F1C8C0DFBFD},
           Row{"-6.32592703e-04", 0xBF44BA927C4C20C2},
           Row{"-3.586621935005160776e+04", 0xC0E1834704EA6641},
           Row{"8.086302e-25", 0x3AEF48491DE5A4FC},
           Row{"4.2e-14", 0x3D27A4D6808FA0FC},
           Row{"2.308641502573942797e-16", 0x3CB0A2B12011CE60},
           Row{"-3.379e-20", 0xBBE3F2334F6B6C7B},
       }) {
    CAPTURE(row.digits);
    CHECK(std::bit_cast<std::uint64_t>(read_score(row.digits)) == row.bits);
  }
}

TEST_CASE("a score out of range becomes infinite") {
  CHECK(std::isinf(read_score("1e309")));
  CHECK(read_score("-1e99999999999999999999") < 0);
  CHECK(std::isinf(read_score("-1e99999999999999999999")));
  CHECK(read_score("0e99999999999999999999") == 0);
}

}  // namespace
}  // namespace attnctl::test
