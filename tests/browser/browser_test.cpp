#include "browser/browser.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "browser/browser_page.hpp"
#include "support/raster.hpp"
#include "support/temp_dir.hpp"

namespace attnctl::test {
namespace {

using nlohmann::json;

/// A page with this body, open in the browser.
struct OpenPage {
  explicit OpenPage(const std::string& body, const PageOptions& options = {}, const std::string& head = "") {
    page.open(directory.write("a page#1.html",
                              "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>"
                              "<title>Test</title>" +
                                  head + "</head><body>" + body),
              options);
  }
  TempDir directory;
  BrowserPage page;
};

/// Returns whether one of the texts contains all parts.
bool contains(const std::vector<std::string>& texts, const std::vector<std::string>& parts) {
  return std::ranges::any_of(texts, [&](const std::string& text) {
    return std::ranges::all_of(parts, [&](const auto& part) { return text.find(part) != std::string::npos; });
  });
}

const std::string kUnusedUrl = "http://127.0.0.1:9/x";
const std::string kImage =
    "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";  // one pixel

TEST_CASE("evaluate returns values and those of promises, and throws exceptions") {
  OpenPage open("<p id=text>gr\u00fc\u00df</p>");
  CHECK(open.page.evaluate("({a: [1, 2.5, 'x', null, true]})") ==
        json::parse(R"({"a":[1,2.5,"x",null,true]})"));
  CHECK(open.page.evaluate("document.querySelector('#text').textContent") == "gr\u00fc\u00df");
  CHECK(open.page.evaluate("new Promise(done => setTimeout(() => done(7)))") == 7);
  CHECK(open.page.evaluate("undefined") == nullptr);
  CHECK(open.page.evaluate("0 / 0") == "NaN");
  CHECK_THROWS_WITH(open.page.evaluate("null.field"), doctest::Contains("Cannot read properties of null"));
  CHECK_THROWS_WITH(open.page.evaluate("Promise.reject(new Error('late'))"), doctest::Contains("late"));
  CHECK_THROWS_WITH(open.page.evaluate("(("), doctest::Contains("SyntaxError"));
}

TEST_CASE("wait_for waits for a condition, and names the condition that stays false") {
  OpenPage open("");
  open.page.evaluate("setTimeout(() => document.body.id = 'later', 1), 0");
  open.page.wait_for("document.body.id === 'later'");
  CHECK(open.page.evaluate("document.body.id") == "later");
  CHECK_THROWS_WITH(open.page.wait_for("1 > 2", std::chrono::milliseconds(10)),
                    "timeout after 0.01 s, waiting for the condition 1 > 2");
  CHECK_THROWS_WITH(open.page.wait_for("missing.field"), doctest::Contains("missing is not defined"));
  CHECK(open.page.evaluate("3") == 3);  // the page still works
}

TEST_CASE("clicks and movements of the mouse arrive") {
  OpenPage open(
      "<style>#far { margin-top: 3000px } #far:hover { opacity: 0.5 }</style>"
      "<button id=first onclick='this.textContent = `clicked`'>click</button>"
      "<button id=far onclick='this.textContent = `far`'>click</button>"
      "<button id=hidden style='display: none'></button>"
      "<div id=under>text</div><div id=over style='position: relative; top: -1em; height: 2em'></div>");
  open.page.click("#first");
  CHECK(open.page.evaluate("document.querySelector('#first').textContent") == "clicked");
  open.page.click("#far");
  CHECK(open.page.evaluate("document.querySelector('#far').textContent") == "far");
  CHECK(open.page.evaluate("getComputedStyle(document.querySelector('#far')).opacity") == "0.5");
  open.page.hover(1, 1);
  open.page.wait_for("getComputedStyle(document.querySelector('#far')).opacity === '1'");
  open.page.hover("#far");
  open.page.wait_for("getComputedStyle(document.querySelector('#far')).opacity === '0.5'");
  CHECK_THROWS_WITH(open.page.click("#missing"), doctest::Contains("no element #missing"));
  CHECK_THROWS_WITH(open.page.click("#hidden"), doctest::Contains("#hidden is not shown"));
  CHECK_THROWS_WITH(open.page.hover("#under"), doctest::Contains("#under is covered by <div id=\"over\""));
}

TEST_CASE("keys arrive with their names, and act as those of a keyboard") {
  OpenPage open(
      "<input id=first><button id=second onclick='this.textContent = `pressed`'>press</button>"
      "<script>const keys = []; addEventListener('keydown', event => keys.push("
      "`${event.key}/${event.code}/${event.keyCode}/${event.ctrlKey}/${event.shiftKey}`));</script>");
  for (const char* name : {"Tab", "a", "Shift+b", "7", "?", "+", "Space", "ArrowLeft", "Backspace",
                           "Control+c", "Tab", "Enter", "Shift+Tab"})
    open.page.key(name);
  CHECK(open.page.evaluate("document.querySelector('#first').value") == "aB7? ");
  CHECK(open.page.evaluate("document.querySelector('#second').textContent") == "pressed");
  CHECK(open.page.evaluate("document.activeElement.id") == "first");
  CHECK(
      open.page.evaluate("keys") ==
      json({"Tab/Tab/9/false/false", "a/KeyA/65/false/false", "B/KeyB/66/false/true",
            "7/Digit7/55/false/false", "?//0/false/false", "+//0/false/false", " /Space/32/false/false",
            "ArrowLeft/ArrowLeft/37/false/false", "Backspace/Backspace/8/false/false", "c/KeyC/67/true/false",
            "Tab/Tab/9/false/false", "Enter/Enter/13/false/false", "Tab/Tab/9/false/true"}));
  CHECK_THROWS_WITH(open.page.key("Arrow"), "unknown key Arrow");
  CHECK_THROWS_WITH(open.page.key("Shft+a"), "unknown modifier Shft");
}

TEST_CASE("the console reports errors, warnings and exceptions, until the next file is opened") {
  OpenPage open(
      "<script>console.log('fine'); console.error('bad', 1); console.warn('odd');</script>"
      "<script>throw new Error('thrown');</script><script>Promise.reject(new Error('lost'));</script>");
  const std::vector<std::string> messages = open.page.console_messages();
  CHECK(messages.size() == 4);
  CHECK(contains(messages, {"error: bad 1"}));
  CHECK(contains(messages, {"warning: odd"}));
  CHECK(contains(messages, {"exception: Uncaught Error: thrown"}));
  CHECK(contains(messages, {"exception: Uncaught (in promise) Error: lost"}));
  open.page.open(open.directory.write("quiet.html", "<!DOCTYPE html><title>Quiet</title>"));
  CHECK(open.page.console_messages().empty());
  CHECK(open.page.evaluate("document.title") == "Quiet");
}

TEST_CASE("requests of the page, of its workers and of sockets are reported") {
  OpenPage open("<img alt='' src='" + kUnusedUrl + "'><img alt='' src='" + kImage + "'>");
  CHECK(open.page.requests() == std::vector<std::string>{kUnusedUrl});
  CHECK(open.page.embedded_requests() == std::vector<std::string>{kImage});
  CHECK(contains(open.page.console_messages(), {"error (network)", kUnusedUrl}));
  open.page.evaluate("new Promise(done => new WebSocket('ws://127.0.0.1:9/socket').onerror = () => done())");
  CHECK(contains(open.page.requests(), {"ws://127.0.0.1:9/socket"}));
  open.page.evaluate("new Worker(URL.createObjectURL(new Blob([`fetch('http://127.0.0.1:9/worker')`]))), 0");
  shared_browser().read_until([&] { return contains(open.page.requests(), {"http://127.0.0.1:9/worker"}); },
                              "the request of the worker");
  CHECK(contains(open.page.embedded_requests(), {"blob:"}));
}

TEST_CASE("a page without requests has no messages") {
  OpenPage open("<p>text</p>", {.fragment = "place"});
  CHECK(open.page.requests().empty());
  CHECK(open.page.embedded_requests().empty());
  CHECK(open.page.console_messages().empty());
  CHECK(open.page.evaluate("location.hash") == "#place");
}

TEST_CASE("a violation of the content security policy is reported") {
  OpenPage open("<script>document.title = 'run'</script><img alt='' src='" + kUnusedUrl + "'>", {},
                "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">");
  CHECK(open.page.evaluate("document.title") == "Test");
  CHECK(contains(open.page.console_messages(),
                 {"error (security)", "inline script", "Content Security Policy"}));
  CHECK(contains(open.page.console_messages(), {"error (security)", kUnusedUrl, "Content Security Policy"}));
}

TEST_CASE("screenshots have the size and the colours of the page") {
  OpenPage open(
      "<style>body { margin: 0; height: 900px; background: rgb(10, 20, 30) }"
      "@media (prefers-color-scheme: dark) { body { background: rgb(1, 2, 3) } }"
      "@media print { body { background: rgb(7, 8, 9) } }</style>",
      {.width = 321, .height = 123, .dark = true});
  const std::string file = (open.directory.path() / "page.png").string();
  const auto colour = [](const Raster& raster) {
    return std::vector<int>(raster.at(5, 5), raster.at(5, 5) + 3);
  };
  open.page.screenshot(file);
  const Raster viewport = read_png(file);
  CHECK(viewport.width == 321);
  CHECK(viewport.height == 123);
  CHECK(colour(viewport) == std::vector<int>{1, 2, 3});
  open.page.screenshot(file, true);
  CHECK(read_png(file).height == 900);
  open.page.emulate_print(true);
  open.page.screenshot(file);
  CHECK(colour(read_png(file)) == std::vector<int>{7, 8, 9});
}

TEST_CASE("a page sees its media features") {
  OpenPage open("", {.dark = true, .reduced_motion = true});
  const auto matches = [&](const std::string& query) {
    return open.page.evaluate("matchMedia('" + query + "').matches").get<bool>();
  };
  CHECK(matches("(prefers-color-scheme: dark)"));
  CHECK(matches("(prefers-reduced-motion: reduce)"));
  open.page.emulate_print(true);
  CHECK(matches("print and (prefers-color-scheme: dark)"));
  open.page.emulate_print(false);
  CHECK(matches("screen"));
  open.page.open(open.directory.path() / "a page#1.html");
  CHECK(matches("(prefers-color-scheme: light)"));
  CHECK(matches("(prefers-reduced-motion: no-preference)"));
}

TEST_CASE("the page writes the clipboard") {
  OpenPage open(
      "<button onclick='navigator.clipboard.writeText(`copied \u00e9`).then(() => this.id = `done`)'>"
      "copy</button>");
  open.page.click("button");
  open.page.wait_for("document.querySelector('#done')");
  CHECK(open.page.clipboard_text() == "copied \u00e9");
}

TEST_CASE("two pages are open at the same time") {
  OpenPage first("first");
  OpenPage second("second");
  first.page.evaluate("localStorage.setItem('name', 'first'), 0");
  CHECK(second.page.evaluate("localStorage.getItem('name')") == nullptr);
  for (OpenPage* open : {&first, &second}) open->page.wait_for("document.visibilityState === 'visible'");
  CHECK(first.page.evaluate("document.body.textContent") == "first");
}

TEST_CASE("a missing file and an ended browser are errors") {
  BrowserPage page;
  CHECK_THROWS_WITH(page.open("/missing.html"), "file:///missing.html: net::ERR_FILE_NOT_FOUND");
  Browser browser;
  browser.post({"Browser.close"});
  CHECK_THROWS_WITH(browser.read_until([] { return false; }, "its end"),
                    doctest::Contains("Chromium ended, waiting for its end"));
}

}  // namespace
}  // namespace attnctl::test
