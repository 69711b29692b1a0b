#include "framework/report/markup.h"

#include <fmt/format.h>

#include <cstdint>

#include "framework/base/foreign_text.h"
#include "framework/base/json.h"
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

/// The text with other characters in place of those that have no place in it.
/// @param markup_of  what stands for an ASCII character; empty: itself
std::string marked(std::string_view given, std::string_view (*markup_of)(char),
                   std::string_view for_control) {
  const std::string valid = valid_utf8(given);
  std::string out;
  for (std::string_view text = valid; !text.empty();) {
    const std::string_view character = text.substr(0, character_size(text));
    text.remove_prefix(character.size());
    const std::string_view markup = markup_of(character[0]);
    const bool control =
        is_control(code_point(character)) && character != "\n" && character != "\t";
    out += !markup.empty() ? markup : control ? for_control : character;
  }
  return out;
}

}  // namespace

std::string html_text(std::string_view text) { return marked(text, html_of, kReplacement); }

std::string latex_text(std::string_view text) { return marked(text, latex_of, ""); }

std::string csv_field(std::string_view text) {
  std::string shown = printable(text);
  if (shown.find_first_of(",\"\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) out += c == '"' ? std::string("\"\"") : std::string(1, c);
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

std::string decimal(double value, int decimals) { return fmt::format("{:.{}f}", value, decimals); }

}  // namespace attnlab
