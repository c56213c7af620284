#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "browser/browser.hpp"

namespace attnctl::test {

/// How a page is shown.
struct PageOptions {
  int width = 1200;  // of the viewport, in CSS pixels; one CSS pixel is one pixel of a screenshot
  int height = 800;
  bool dark = false;            // prefers-color-scheme
  bool reduced_motion = false;  // prefers-reduced-motion
  std::string fragment = {};    // of the URL, without "#"
};

/// A window of the browser with its own storage and with access to the clipboard.
class BrowserPage {
 public:
  explicit BrowserPage(Browser& browser = shared_browser());
  ~BrowserPage();
  BrowserPage(const BrowserPage&) = delete;
  BrowserPage& operator=(const BrowserPage&) = delete;

  /// Opens a file, waits for its load event, and forgets the messages and requests of the file before it.
  void open(const std::filesystem::path& file, const PageOptions& options = {});
  /// Changes between the media types screen and print.
  void emulate_print(bool print);

  /// Returns the value of an expression, or of the promise that it returns. undefined gives null; NaN,
  /// Infinity, -0 and big integers give a text. Throws with the text of an exception.
  nlohmann::json evaluate(const std::string& javascript);
  /// Checks a condition in each animation frame until it is true. Throws after `timeout`.
  void wait_for(const std::string& condition, std::chrono::milliseconds timeout = kBrowserTimeout);

  /// Move the mouse to a point of the viewport, or to the middle of the first box of an element, which is
  /// scrolled into view. Throw if there is no such element, or if another element covers this point.
  void hover(double x, double y);
  void hover(const std::string& selector);
  /// Move the mouse in the same way and press the left button.
  void click(double x, double y);
  void click(const std::string& selector);
  /// Presses and releases a key: a character, "Enter", "Tab", "Space", "Escape", "ArrowRight" and so on.
  /// Modifiers come first: "Shift+Tab", "Control+Alt+c".
  void key(std::string_view name);

  /// Writes a PNG file of the viewport, or of the full page.
  void screenshot(const std::filesystem::path& file, bool full_page = false);
  /// Returns the text in the clipboard, which all pages share.
  [[nodiscard]] std::string clipboard_text();
  /// Returns errors, warnings, exceptions that were not caught, and violations of the content security
  /// policy.
  [[nodiscard]] const std::vector<std::string>& console_messages();
  /// Returns the URLs of all requests of the page, its frames and workers, except those for the file itself
  /// and those of `embedded_requests`. Events of workers can arrive late (Browser::read_until waits for
  /// them).
  [[nodiscard]] const std::vector<std::string>& requests();
  /// Returns the URLs of all requests of the schemes data and blob.
  [[nodiscard]] const std::vector<std::string>& embedded_requests();

 private:
  friend class Browser;
  nlohmann::json call(const std::string& method, nlohmann::json params = nlohmann::json::object());
  nlohmann::json evaluate(const std::string& javascript, const std::string& waiting_for,
                          std::chrono::milliseconds timeout);
  void on_event(const std::string& method, const nlohmann::json& params);
  void enable_events(const std::string& session);
  void add_request(const std::string& url);
  void receive_events();
  void mouse(const char* type, double x, double y, bool pressed);
  [[nodiscard]] std::pair<double, double> middle_of(const std::string& selector);

  Browser& browser_;
  std::string context_, session_;
  std::string url_;               // of the file, without the fragment
  std::set<std::string> loaded_;  // documents whose load event was received
  PageOptions options_;
  std::vector<std::string> console_messages_, requests_, embedded_requests_;
};

}  // namespace attnctl::test
