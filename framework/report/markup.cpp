#include "framework/report/markup.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/comparison/table.h"

namespace attnlab {
namespace {

std::string_view latex_of(char c) {
  switch (c) {
    case '\\':
      return "\\textbackslash{}";
    case '{':
      return "\\{";
    case '}':
      return "\\}";
    case '$':
      return "\\$";
    case '&':
      return "\\&";
    case '#':
      return "\\#";
    case '_':
      return "\\_";
    case '%':
      return "\\%";
    case '~':
      return "\\textasciitilde{}";
    case '^':
      return "\\textasciicircum{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '"':
      return "{\\char34}";
    case '\n':
    case '\r':
    case '\t':
      return " ";
    default:
      return {};
  }
}

std::string_view html_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    const std::string_view escaped = is_control(c) ? kReplacement : html_of(c);
    if (escaped.empty()) {
      out += c;
    } else {
      out += escaped;
    }
  }
  return out;
}

std::string latex_text(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    const std::string_view escaped = latex_of(c);
    if (!escaped.empty()) {
      out += escaped;
    } else if (!is_control(c)) {
      out += c;
    }
  }
  return out;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_record(const std::vector<std::string>& fields) {
  std::vector<std::string> quoted;
  quoted.reserve(fields.size());
  for (const std::string& field : fields) quoted.push_back(csv_field(field));
  return join(quoted, ",") + "\r\n";
}

std::string p_phrase(double p_value) {
  const std::string text = p_text(p_value);
  return text[0] == '<' ? "p " + text : "p = " + text;
}

std::string script_json(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {  // both stand only inside strings
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace attnlab
