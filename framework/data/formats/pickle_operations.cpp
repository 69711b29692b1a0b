// The operations of a pickle: see pickle_reader.h.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>

#include "framework/base/foreign_text.h"
#include "framework/data/formats/pickle_reader.h"

namespace attnlab {

void PickleReader::fail(const std::string& what) const {
  throw DataError(fmt::format(
      "{}: byte {}: {}; the file is damaged, or not a pickle of the kind that is read here", path_,
      at_, what));
}

std::string PickleReader::line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) fail("a line does not end");
  std::string text(take(end - at_));
  take(1);
  return text;
}

std::int64_t PickleReader::decimal(std::string text) const {
  if (!text.empty() && text.back() == 'L') text.pop_back();
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || end != text.c_str() + text.size() || errno == ERANGE) {
    fail(excerpt(text) + " is not a number");
  }
  return value;
}

void PickleReader::step(unsigned char code) {
  switch (code) {
    case 0x80:
      take(1);
      return;  // PROTO
    case 0x95:
      take(8);
      return;  // FRAME
    case '(':
      marks_.push_back(stack_.size());
      return;  // MARK
    case '0':
      pop();
      return;  // POP
    case '1':
      pop_to_mark();
      return;  // POP_MARK
    case '2':
      push(top());
      return;  // DUP
    case 'N':
      push(make(ValueKind::none));
      return;  // NONE
    case 0x88:
      push_boolean(true);
      return;  // NEWTRUE
    case 0x89:
      push_boolean(false);
      return;  // NEWFALSE
    case 'J':
      push_integer(number<std::int32_t>());
      return;  // BININT
    case 'K':
      push_integer(number<std::uint8_t>());
      return;  // BININT1
    case 'M':
      push_integer(number<std::uint16_t>());
      return;    // BININT2
    case 'I': {  // INT, and protocol 0's booleans
      const std::string text = line();
      text == "00" || text == "01" ? push_boolean(text == "01") : push_integer(decimal(text));
      return;
    }
    case 'L':
      push_integer(decimal(line()));
      return;     // LONG
    case 0x8a:    // LONG1
    case 0x8b: {  // LONG4
      const std::string_view digits =
          take(code == 0x8a ? number<std::uint8_t>() : number<std::uint32_t>());
      if (digits.size() > 8) return push_text(digits);  // no such number is needed
      const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
      std::int64_t value = negative ? -1 : 0;
      std::memcpy(&value, digits.data(), digits.size());
      return push_integer(value);
    }
    case 'F': {  // FLOAT
      const std::string text = line();
      char* end = nullptr;
      const double value = std::strtod(text.c_str(), &end);
      if (text.empty() || end != text.c_str() + text.size())
        fail(excerpt(text) + " is not a number");
      return push_real(value);
    }
    case 'G': {  // BINFLOAT, big-endian
      const auto bits = __builtin_bswap64(number<std::uint64_t>());
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return push_real(value);
    }
    case 'S': {  // STRING, in quotes
      const std::string text = line();
      if (text.size() < 2) fail("a text has no quotes");
      return push_text(std::string_view(text).substr(1, text.size() - 2));
    }
    case 'V':
      push_text(line());
      return;  // UNICODE
    case 'U':  // SHORT_BINSTRING
    case 'C':  // SHORT_BINBYTES
    case 0x8c:
      push_text(take(number<std::uint8_t>()));
      return;  // SHORT_BINUNICODE
    case 'T':  // BINSTRING
    case 'B':  // BINBYTES
    case 'X':
      push_text(take(number<std::uint32_t>()));
      return;   // BINUNICODE
    case 0x8d:  // BINUNICODE8
    case 0x8e:  // BINBYTES8
    case 0x96:
      push_text(take(number<std::uint64_t>()));
      return;  // BYTEARRAY8
    case ']':  // EMPTY_LIST
    case ')':  // EMPTY_TUPLE
    case 0x8f:
      push_list({});
      return;    // EMPTY_SET
    case 'a': {  // APPEND
      PickleValue* item = pop();
      return append({item});
    }
    case 'e':  // APPENDS
    case 0x90:
      append(pop_to_mark());
      return;  // ADDITEMS
    case 'l':  // LIST
    case 't':  // TUPLE
    case 0x91:
      push_list(pop_to_mark());
      return;   // FROZENSET
    case 0x85:  // TUPLE1
    case 0x86:  // TUPLE2
    case 0x87:
      push_tuple(code - 0x84u);
      return;  // TUPLE3
    case '}':
      push(make(ValueKind::map));
      return;    // EMPTY_DICT
    case 'd': {  // DICT
      const std::vector<PickleValue*> items = pop_to_mark();
      push(make(ValueKind::map));
      return set_items(items);
    }
    case 's': {  // SETITEM
      PickleValue* value = pop();
      PickleValue* key = pop();
      return set_items({key, value});
    }
    case 'u':
      set_items(pop_to_mark());
      return;    // SETITEMS
    case 'c': {  // GLOBAL
      const std::string module = line();
      return push_object(fmt::format("{}.{}", module, line()), {});
    }
    case 0x93: {  // STACK_GLOBAL
      const std::string name = pop()->text();
      return push_object(fmt::format("{}.{}", pop()->text(), name), {});
    }
    case 'R':  // REDUCE
    case 0x81:
      reduce();
      return;  // NEWOBJ
    case 0x92:
      pop();
      reduce();
      return;  // NEWOBJ_EX, without the named arguments
    case 'b':
      build();
      return;  // BUILD
    case 'p':
      memo_[decimal(line())] = top();
      return;  // PUT
    case 'q':
      memo_[number<std::uint8_t>()] = top();
      return;  // BINPUT
    case 'r':
      memo_[number<std::uint32_t>()] = top();
      return;     // LONG_BINPUT
    case 0x94: {  // MEMOIZE
      const auto next = static_cast<std::int64_t>(memo_.size());
      memo_[next] = top();
      return;
    }
    case 'g':
      recall(decimal(line()));
      return;  // GET
    case 'h':
      recall(number<std::uint8_t>());
      return;  // BINGET
    case 'j':
      recall(number<std::uint32_t>());
      return;    // LONG_BINGET
    case 'Q': {  // BINPERSID
      const PickleValue* id = pop();
      if (storages_ == nullptr) return push_object(kPersistent, {id});
      const Tensor storage = storage_beside(*id);
      push(make(ValueKind::tensor));
      stack_.back()->content_->tensor = storage;
      return;
    }
    default:
      fail(fmt::format("operation 0x{:02x} is not known", code));
  }
}

}  // namespace attnlab
