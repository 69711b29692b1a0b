// The typed errors of attnlab. Libraries throw them and never print; only the program prints.
//
// Every message names the place (a file, where there is one its line and column), what is wrong
// there, and what to do about it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attnlab {

/// The name of a file, which its thousands of places share: copies of one name are one text.
class FileName {
 public:
  FileName() = default;
  FileName(std::string text)  // NOLINT(google-explicit-constructor)
      : text_(std::make_shared<const std::string>(std::move(text))) {}
  FileName(const char* text) : FileName(std::string(text)) {}  // NOLINT

  const std::string& text() const;
  operator const std::string&() const { return text(); }  // NOLINT(google-explicit-constructor)
  bool empty() const { return text().empty(); }
  bool starts_with(std::string_view beginning) const { return text().starts_with(beginning); }
  friend bool operator==(const FileName& a, const FileName& b) { return a.text() == b.text(); }
  friend bool operator==(const FileName& a, const std::string& b) { return a.text() == b; }
  friend bool operator==(const FileName& a, const char* b) { return a.text() == b; }

 private:
  std::shared_ptr<const std::string> text_;  ///< null: empty
};

/// A place in a text file. Lines and columns count from 1; 0 means "not known".
struct Place {
  FileName file;
  int line = 0;
  int column = 0;

  /// "file:line:column", without the parts that are not known.
  std::string str() const;
};

/// Base of everything that attnlab throws.
class Error : public std::runtime_error {
 public:
  /// Zero bytes in it, of a file that it quotes, become \x00: `what()` would end at the first.
  explicit Error(const std::string& what);
};

/// A composition, an option or a command line is wrong. `what()` holds every problem, a line each.
class ConfigError : public Error {
 public:
  using Error::Error;
  ConfigError(const Place& place, const std::string& what) : Error(place.str() + ": " + what) {}
  explicit ConfigError(const std::vector<std::string>& problems);
};

/// A plugin found the value of one of its options wrong ("5 does not divide image_size 28"). The
/// host turns it into a ConfigError with the option's file, line and column.
class OptionError : public ConfigError {
 public:
  OptionError(std::string option, const std::string& what)
      : ConfigError(option + ": " + what), option_(std::move(option)) {}
  const std::string& option() const { return option_; }

 private:
  std::string option_;
};

/// A tensor has a shape or dtype that a contract does not allow.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A composition asks of a part what it does not honour, e.g. a mask of an attention without masks.
class TraitError : public Error {
 public:
  using Error::Error;
};

/// A plugin cannot be found, read, loaded or built.
class PluginError : public Error {
 public:
  using Error::Error;
};

/// A data file is missing, damaged or holds what it must not.
class DataError : public Error {
 public:
  using Error::Error;
};

/// The data that a dataset needs is not on this machine (a special case of `DataError`: callers
/// may fall back to other data).
class DataMissingError : public DataError {
 public:
  using DataError::DataError;
};

/// The operating system refused to read or write (permission, full disk).
class FileError : public Error {
 public:
  using Error::Error;
};

/// Thrown out of work that was asked to stop.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
};

}  // namespace attnlab
