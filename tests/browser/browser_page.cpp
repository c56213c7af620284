#include "browser/browser_page.hpp"

#include <cstdint>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

namespace attnctl::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string from_base64(const std::string& text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;  // the padding
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string file_url(const fs::path& file) {
  std::string url = "file://";
  for (const char c : fs::absolute(file).lexically_normal().string()) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    url += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

/// Returns the parameters of Input.dispatchKeyEvent for a key, without its type.
json key_event(std::string_view name) {
  int modifiers = 0;
  for (std::size_t plus = 0; (plus = name.find('+', 1)) != std::string_view::npos;
       name.remove_prefix(plus + 1)) {
    const std::string_view modifier = name.substr(0, plus);
    static const std::map<std::string_view, int> bits = {
        {"Alt", 1}, {"Control", 2}, {"Meta", 4}, {"Shift", 8}};
    if (!bits.contains(modifier)) throw std::runtime_error(fmt::format("unknown modifier {}", modifier));
    modifiers |= bits.at(modifier);
  }
  static const std::map<std::string_view, int> codes = {
      {"Backspace", 8},   {"Tab", 9},        {"Enter", 13}, {"Escape", 27},    {"PageUp", 33},
      {"PageDown", 34},   {"End", 35},       {"Home", 36},  {"ArrowLeft", 37}, {"ArrowUp", 38},
      {"ArrowRight", 39}, {"ArrowDown", 40}, {"Delete", 46}};
  if (name == "Space") name = " ";
  std::string key(name);
  std::string code = key;
  std::string text;
  int number = 0;
  if (codes.contains(name)) {
    number = codes.at(name);
    if (name == "Enter") text = "\r";
  } else if (name.size() == 1) {
    const bool letter = (name[0] | 32) >= 'a' && (name[0] | 32) <= 'z';
    const bool digit = name[0] >= '0' && name[0] <= '9';
    const char upper = letter ? static_cast<char>(name[0] & ~32) : name[0];
    if (letter && (modifiers & 8) != 0) key = upper;
    code = letter ? std::string("Key") + upper : digit ? "Digit" + key : key == " " ? "Space" : "";
    number = letter || digit || key == " " ? upper : 0;
    if ((modifiers & ~8) == 0) text = key;
  } else {
    throw std::runtime_error(fmt::format("unknown key {}", name));
  }
  return {{"key", key},
          {"code", code},
          {"windowsVirtualKeyCode", number},
          {"modifiers", modifiers},
          {"text", text}};
}

/// Returns the text of an exception or of an argument of console.error.
std::string description_of(const json& object) {
  if (object.contains("description")) return object["description"].get<std::string>();
  const json value = object.value("value", json());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string exception_text(const json& details) {
  if (!details.contains("exception")) return details.value("text", "");
  return details.value("text", "") + " " + description_of(details["exception"]);
}

}  // namespace

BrowserPage::BrowserPage(Browser& browser) : browser_(browser) {
  context_ = browser_.call({"Target.createBrowserContext"})["browserContextId"];
  const json target = browser_.call(
      {"Target.createTarget", {{"url", "about:blank"}, {"browserContextId", context_}, {"newWindow", true}}});
  session_ = browser_.call(
      {"Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}}})["sessionId"];
  browser_.call(
      {"Browser.grantPermissions",
       {{"browserContextId", context_}, {"permissions", {"clipboardReadWrite", "clipboardSanitizedWrite"}}}});
  browser_.attach(session_, *this);
  enable_events(session_);
  call("Page.enable");
  call("Page.setLifecycleEventsEnabled", {{"enabled", true}});
  call("Emulation.setFocusEmulationEnabled", {{"enabled", true}});
}

BrowserPage::~BrowserPage() {
  browser_.detach(*this);
  try {
    browser_.call({"Target.disposeBrowserContext", {{"browserContextId", context_}}});
  } catch (const std::exception&) {
    return;  // the browser has ended, and the window with it
  }
}

/// Enables the events of a page or of a worker. Workers and frames that it creates wait until this is done
/// for them too (Target.attachedToTarget), so that no request is missed.
void BrowserPage::enable_events(const std::string& session) {
  for (const char* method : {"Runtime.enable", "Log.enable", "Network.enable"})
    browser_.post({method, json::object(), session});
  browser_.post({"Target.setAutoAttach",
                 {{"autoAttach", true}, {"waitForDebuggerOnStart", true}, {"flatten", true}},
                 session});
}

void BrowserPage::on_event(const std::string& method, const json& params) {
  if (method == "Page.lifecycleEvent" && params["name"] == "load") {
    loaded_.insert(params["loaderId"].get<std::string>());
  } else if (method == "Target.attachedToTarget") {
    const std::string session = params["sessionId"];
    browser_.attach(session, *this);
    enable_events(session);
    browser_.post({"Runtime.runIfWaitingForDebugger", json::object(), session});
  } else if (method == "Runtime.exceptionThrown") {
    console_messages_.push_back("exception: " + exception_text(params["exceptionDetails"]));
  } else if (method == "Runtime.consoleAPICalled") {
    const std::string type = params["type"];
    if (type != "error" && type != "warning" && type != "assert") return;
    std::string message = type + ":";
    for (const json& argument : params["args"]) message += " " + description_of(argument);
    console_messages_.push_back(message);
  } else if (method == "Log.entryAdded") {
    const json& entry = params["entry"];
    if (entry["level"] != "error" && entry["level"] != "warning") return;
    console_messages_.push_back(fmt::format("{} ({}): {} {}", entry["level"].get<std::string>(),
                                            entry["source"].get<std::string>(),
                                            entry["text"].get<std::string>(), entry.value("url", "")));
  } else if (method == "Network.requestWillBeSent") {
    add_request(params["request"]["url"]);
  } else if (method == "Network.webSocketCreated" || method == "Network.webTransportCreated") {
    add_request(params["url"]);
  }
}

void BrowserPage::add_request(const std::string& url) {
  if (url == url_) return;
  const bool embedded = url.starts_with("data:") || url.starts_with("blob:");
  (embedded ? embedded_requests_ : requests_).push_back(url);
}

json BrowserPage::call(const std::string& method, json params) {
  return browser_.call({method, std::move(params), session_});
}

void BrowserPage::open(const fs::path& file, const PageOptions& options) {
  options_ = options;
  call("Emulation.setDeviceMetricsOverride",
       {{"width", options.width}, {"height", options.height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  emulate_print(false);
  receive_events();
  console_messages_.clear();
  requests_.clear();
  embedded_requests_.clear();
  url_ = file_url(file);
  const json answer =
      call("Page.navigate", {{"url", options.fragment.empty() ? url_ : url_ + "#" + options.fragment}});
  if (answer.contains("errorText"))
    throw std::runtime_error(url_ + ": " + answer["errorText"].get<std::string>());
  if (!answer.contains("loaderId")) return;  // only the fragment has changed
  const std::string document = answer["loaderId"];
  browser_.read_until([&] { return loaded_.contains(document); }, "the load event of " + url_);
}

void BrowserPage::emulate_print(bool print) {
  const json scheme = {{"name", "prefers-color-scheme"}, {"value", options_.dark ? "dark" : "light"}};
  const json motion = {{"name", "prefers-reduced-motion"},
                       {"value", options_.reduced_motion ? "reduce" : "no-preference"}};
  call("Emulation.setEmulatedMedia",
       {{"media", print ? "print" : "screen"}, {"features", json::array({scheme, motion})}});
}

json BrowserPage::evaluate(const std::string& javascript) {
  return evaluate(javascript, "the value of " + javascript.substr(0, 300), kBrowserTimeout);
}

json BrowserPage::evaluate(const std::string& javascript, const std::string& waiting_for,
                           std::chrono::milliseconds timeout) {
  const json answer = browser_.call(
      {"Runtime.evaluate",
       {{"expression", javascript}, {"awaitPromise", true}, {"returnByValue", true}, {"userGesture", true}},
       session_,
       waiting_for,
       timeout});
  if (answer.contains("exceptionDetails"))
    throw std::runtime_error(exception_text(answer["exceptionDetails"]));
  const json& result = answer["result"];
  return result.value("value", result.value("unserializableValue", json()));
}

void BrowserPage::wait_for(const std::string& condition, std::chrono::milliseconds timeout) {
  static constexpr const char* kPoll = R"js(new Promise((resolve, reject) => {
    const check = () => {
      try {
        if (CONDITION) resolve(true); else requestAnimationFrame(check);
      } catch (error) { reject(error); }
    };
    check();
  }))js";
  std::string javascript = kPoll;
  javascript.replace(javascript.find("CONDITION"), 9, condition);
  evaluate(javascript, "the condition " + condition, timeout);
}

std::pair<double, double> BrowserPage::middle_of(const std::string& selector) {
  const json point = evaluate(R"js((selector => {
    const element = document.querySelector(selector);
    if (!element) throw new Error(`no element ${selector}`);
    element.scrollIntoView({block: "nearest", inline: "nearest", behavior: "instant"});
    const box = element.getClientRects()[0];
    if (!box) throw new Error(`${selector} is not shown`);
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    const top = document.elementFromPoint(x, y);
    if (!element.contains(top)) {
      throw new Error(`${selector} is covered by ${top ? top.cloneNode().outerHTML : "the edge of the window"}`);
    }
    return [x, y];
  }))js" + ("(" + json(selector).dump() + ")"));
  return {point[0].get<double>(), point[1].get<double>()};
}

void BrowserPage::mouse(const char* type, double x, double y, bool pressed) {
  call("Input.dispatchMouseEvent", {{"type", type},
                                    {"x", x},
                                    {"y", y},
                                    {"button", pressed ? "left" : "none"},
                                    {"clickCount", pressed ? 1 : 0}});
}

void BrowserPage::hover(double x, double y) {
  mouse("mouseMoved", x, y, false);
}

void BrowserPage::hover(const std::string& selector) {
  const auto [x, y] = middle_of(selector);
  hover(x, y);
}

void BrowserPage::click(double x, double y) {
  hover(x, y);
  mouse("mousePressed", x, y, true);
  mouse("mouseReleased", x, y, true);
}

void BrowserPage::click(const std::string& selector) {
  const auto [x, y] = middle_of(selector);
  click(x, y);
}

void BrowserPage::key(std::string_view name) {
  json event = key_event(name);
  event["type"] = event["text"].get<std::string>().empty() ? "rawKeyDown" : "keyDown";
  call("Input.dispatchKeyEvent", event);
  event["type"] = "keyUp";
  event.erase("text");
  call("Input.dispatchKeyEvent", event);
}

void BrowserPage::screenshot(const fs::path& file, bool full_page) {
  json params = {{"format", "png"}, {"captureBeyondViewport", full_page}};
  if (full_page) {
    params["clip"] = call("Page.getLayoutMetrics")["cssContentSize"];
    params["clip"]["scale"] = 1;
  }
  const std::string bytes = from_base64(call("Page.captureScreenshot", params)["data"]);
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << bytes << std::flush)) throw std::runtime_error("cannot write " + file.string());
}

std::string BrowserPage::clipboard_text() {
  return evaluate("navigator.clipboard.readText()");
}

/// Receives the events that the page sent before this call: the answer comes after them.
void BrowserPage::receive_events() {
  evaluate("0");
}

const std::vector<std::string>& BrowserPage::console_messages() {
  receive_events();
  return console_messages_;
}

const std::vector<std::string>& BrowserPage::requests() {
  receive_events();
  return requests_;
}

const std::vector<std::string>& BrowserPage::embedded_requests() {
  receive_events();
  return embedded_requests_;
}

}  // namespace attnctl::test
