#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "report/json.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

std::string whole(const Document& document, JsonStream::Style style) {
  const TempDir folder;
  OutputFile out(folder.path() / "whole");
  style == JsonStream::Style::document ? write_json(out, document) : write_jsonl(out, document);
  out.commit();
  return slurp(folder.path() / "whole");
}

TEST_CASE("a document that is written bit by bit has the bytes of one that is written whole") {
  Record head;
  head.set("schema", "x/1").set("tool", Record().set("threads", 2));
  Record warning;
  warning.set("code", "a").set("count", 1);
  for (const JsonStream::Style style : {JsonStream::Style::document, JsonStream::Style::lines}) {
    for (const std::size_t items : {0U, 1U, 3U}) {
      for (const std::size_t warnings : {0U, 2U}) {
        CAPTURE(items);
        CAPTURE(warnings);
        List list;
        const TempDir folder;
        OutputFile out(folder.path() / "stream");
        JsonStream stream(out, style, "inputs", "input");
        stream.begin(head);
        for (std::size_t i = 0; i < items; ++i) {
          Record item;
          item.set("id", std::to_string(i)).set("n", i);
          list.emplace_back(item);
          std::string text;
          stream.open_item(text);
          text += "\"id\": \"" + std::to_string(i) + "\", \"n\": " + std::to_string(i);
          stream.close_item(text);
          stream.write_items(text);
          stream.write_items("");
        }
        const Section last{"warnings", "warning", List(warnings, Value(warning))};
        stream.end({last});
        out.commit();
        CHECK(slurp(folder.path() / "stream") == whole({head, {{"inputs", "input", list}, last}}, style));
      }
    }
  }
}

}  // namespace
}  // namespace attnctl::test
