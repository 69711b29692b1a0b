// Attentions in Python files, as compositions name them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/config/compose.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/python_file.h"

namespace attnlab::python_name_test {
namespace {

Node section(const std::string& text) {
  return parse_yaml("attention: " + text, "lab/mine.yaml").at("attention");
}

TEST(PythonName, IsOfAFileThatEndsInPy) {
  for (const char* name : {"mine.py", "ideas/mine.py", "mine.py:Mine", "/a/b.c/mine.py:Mine"}) {
    EXPECT_TRUE(is_python_name(name)) << name;
    EXPECT_EQ(parse_python_name(name).text(), name);
  }
  for (const char* name : {"quest", "lab/quest", ".py", "mine.pyc", "mine:Mine", "", "py:a/b"}) {
    EXPECT_FALSE(is_python_name(name)) << name;
  }
  EXPECT_EQ(parse_python_name("a/mine.py:Mine").file, "a/mine.py");
  EXPECT_EQ(parse_python_name("a/mine.py:Mine").name, "Mine");
}

TEST(PythonName, HasALongFormAndAShortOne) {
  const Node longer = python_section(section("{use: a/mine.py:Mine, as: warm}"));
  EXPECT_EQ(longer.at("use").text(), "python");
  EXPECT_EQ(longer.at("file").text(), "a/mine.py");
  EXPECT_EQ(longer.at("file").place().file, "lab/mine.yaml");
  EXPECT_EQ(longer.at("class").text(), "Mine");
  EXPECT_EQ(longer.at("as").text(), "warm");
  EXPECT_TRUE(is_python(longer));
  EXPECT_TRUE(is_python(section("mine.py")));
  EXPECT_FALSE(is_python(section("{use: quest, file: mine.py}")));
  EXPECT_EQ(to_flow(python_section(section("{use: quest, eps: 1}"))), "{use: quest, eps: 1}");
}

TEST(PythonName, IsWhatTablesCallIt) {
  EXPECT_EQ(attention_label(section("a/mine.py")), "mine");
  EXPECT_EQ(attention_label(section("mine.py:Other")), "Other");
  EXPECT_EQ(attention_label(section("{use: python, file: python/0123456789abcdef/mine.py}")),
            "mine");
  EXPECT_EQ(attention_label(section("{use: python, file: mine.py, class: Other}")), "Other");
  EXPECT_EQ(attention_label(section("{use: mine.py, as: warm}")), "warm");
  EXPECT_EQ(attention_label(section("{use: quest, layers: {last: {use: mine.py}}}")), "quest+mine");
}

TEST(PythonName, IsAmongTheMechanismsOfASection) {
  const auto all = mechanisms_in(
      section("{use: python, file: mine.py, class: Mine, layers: {last: a/b.py, first: quest}}"));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].name, "mine.py:Mine");
  EXPECT_EQ(all[1].name, "a/b.py");
  EXPECT_EQ(all[2].name, "quest");
  EXPECT_TRUE(mechanisms_in(section("{use: python}")).empty());
}

}  // namespace
}  // namespace attnlab::python_name_test
