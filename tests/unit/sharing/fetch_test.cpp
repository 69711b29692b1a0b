// Fetching from servers that do not do what they should.
#include "framework/sharing/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/sharing/hash.h"

namespace attnlab::testing::fetch_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Answers one request after the other with these bytes and closes the connection; behind the last
/// ones it may drip: a byte now and then, for ever.
class Server {
 public:
  explicit Server(std::vector<std::string> answers, bool drips = false)
      : answers_(std::move(answers)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, any, size), 0);
    EXPECT_EQ(::listen(socket_, 1), 0);
    EXPECT_EQ(::getsockname(socket_, any, &size), 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    thread_ = std::thread([this, drips] {
      for (const std::string& answer : answers_)
        serve(answer, drips && &answer == &answers_.back());
    });
  }
  ~Server() { end(); }
  const std::string& url() const { return url_; }
  /// What was asked. Nobody is answered any more.
  const std::vector<std::string>& requests() {
    end();
    return requests_;
  }

 private:
  void end() {
    done_ = true;
    ::shutdown(socket_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    if (const int socket = std::exchange(socket_, -1); socket >= 0) ::close(socket);
  }
  void serve(const std::string& answer, bool drips) {
    const int client = ::accept(socket_, nullptr, nullptr);
    if (client < 0) return;
    char request[4096];
    const ssize_t size = ::recv(client, request, sizeof request, 0);
    if (size > 0) {
      requests_.emplace_back(request, size);
      ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    while (drips && !done_ && ::send(client, "x", 1, MSG_NOSIGNAL) == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ::close(client);
  }

  std::vector<std::string> answers_, requests_;
  std::string url_;
  int socket_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// Without waiting between the tries.
sharing::Pace hurried(int tries = 5) {
  sharing::Pace pace;
  pace.tries = tries;
  pace.pause = 0;
  return pace;
}

std::string answer_of(const Server& server, std::int64_t most,
                      const sharing::Pace& pace = hurried(), const std::string& sha256 = "") {
  try {
    return sharing::fetch(server.url(), most, pace, sha256);
  } catch (const FileError& error) {
    return error.what();
  }
}

/// An answer that promises ten bytes.
std::string ten(const std::string& sent, const std::string& fields) {
  return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: 10\r\n\r\n" + sent;
}

/// An answer with a part of ten bytes.
std::string part(int from, const std::string& sent) {
  return "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) +
         "-9/10\r\nContent-Length: " + std::to_string(10 - from) + "\r\n\r\n" + sent;
}

constexpr const char* kTag = "ETag: \"one\"\r\n";

TEST(Fetch, TakesAFileAndNoMoreThanItMay) {
  const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole";
  EXPECT_EQ(answer_of(Server({answer}), 5), "whole");
  EXPECT_THAT(answer_of(Server({answer}), 4), HasSubstr("is larger than 4 bytes"));
}

TEST(Fetch, ShowsNoPasswords) {
  EXPECT_EQ(sharing::shown("https://user:s3cret@host/a@b"), "https://***@host/a@b");
  EXPECT_EQ(sharing::shown("https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(sharing::shown("/a/folder@home"), "/a/folder@home");
  try {
    sharing::fetch("http://me:s3cret@127.0.0.1:1/x", 10);
    ADD_FAILURE() << "nobody serves there";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("http://***@127.0.0.1:1/x"), Not(HasSubstr("s3cret"))));
  }
}

TEST(Fetch, LeavesAServerThatDrips) {
  const Server server({"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"}, true);
  sharing::Pace pace = hurried(1);
  pace.seconds = 1;
  EXPECT_THAT(answer_of(server, 1'000'000, pace), HasSubstr("cannot be fetched"));
}

TEST(Fetch, LeavesAServerThatTakesTooLongInAll) {
  const Server server({"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"}, true);
  sharing::Pace pace = hurried();
  pace.least = 1;
  pace.in_all = 0.3;
  EXPECT_THAT(answer_of(server, 1'000'000, pace),
              AllOf(HasSubstr("it took longer than 0.3 s"), HasSubstr(" of 1000000 bytes came")));
}

TEST(Fetch, GoesOnWhereATransferBrokeOff) {
  Server server({ten("0123", kTag), part(4, "45"), part(6, "6789")});
  EXPECT_EQ(answer_of(server, 10), "0123456789");
  ASSERT_EQ(server.requests().size(), 3U);
  EXPECT_THAT(server.requests()[0], Not(HasSubstr("Range:")));
  EXPECT_THAT(server.requests()[1],
              AllOf(HasSubstr("Range: bytes=4-\r\n"), HasSubstr("If-Range: \"one\"\r\n")));
  EXPECT_THAT(server.requests()[2], HasSubstr("Range: bytes=6-\r\n"));
}

TEST(Fetch, GoesOnByTheTimeOfTheFile) {
  Server server(
      {ten("0123", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), part(4, "456789")});
  EXPECT_EQ(answer_of(server, 10), "0123456789");
  EXPECT_THAT(server.requests().at(1), HasSubstr("If-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n"));
}

TEST(Fetch, BeginsAnewWhereTheServerGivesTheWholeFile) {
  EXPECT_EQ(answer_of(Server({ten("0123", kTag), ten("abcdefghij", "ETag: \"two\"\r\n")}), 10),
            "abcdefghij");
}

TEST(Fetch, BeginsAnewWhereTheServerCannotTellTheFileFromOthers) {
  for (const std::string fields : {"", "ETag: W/\"one\"\r\n"}) {
    Server server({ten("0123", fields), ten("abcdefghij", fields)});
    EXPECT_EQ(answer_of(server, 10), "abcdefghij");
    EXPECT_THAT(server.requests().at(1), Not(HasSubstr("Range:")));
  }
}

TEST(Fetch, BeginsAnewWhereTheServerGivesAnotherPart) {
  Server server({ten("0123", kTag), part(2, "23456789"), ten("0123456789", kTag)});
  EXPECT_EQ(answer_of(server, 10), "0123456789");
  EXPECT_THAT(server.requests().at(2), Not(HasSubstr("Range:")));
}

TEST(Fetch, BeginsAnewWhereThePartsAreNotThoseOfTheFile) {
  Server server({ten("0123", kTag), part(4, "XXXXXX"), ten("0123456789", kTag)});
  EXPECT_EQ(answer_of(server, 10, hurried(), sharing::sha256("0123456789")), "0123456789");
  EXPECT_THAT(server.requests().at(2), Not(HasSubstr("Range:")));
}

TEST(Fetch, SaysHowFarItCame) {
  EXPECT_THAT(answer_of(Server({ten("0123", kTag), part(4, "45")}), 10, hurried(2)),
              AllOf(HasSubstr("cannot be fetched"), HasSubstr("6 of 10 bytes came, in 2 tries"),
                    HasSubstr("give its path")));
}

TEST(Fetch, LeavesAServerThatBreaksOffForEver) {
  const std::vector<std::string> answers(5, ten("012345", ""));
  EXPECT_THAT(answer_of(Server(answers), 10), HasSubstr("more than 20 bytes in all"));
}

}  // namespace
}  // namespace attnlab::testing::fetch_test
