#include "plugins/storage/http/failure.hpp"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plugins/storage/ranged/tries.hpp"

namespace kinora::web {
namespace {

TEST(Failures, NameTheAddressTheCauseAndWhatToDo) {
  const struct {
    CURLcode code;
    long status;
    int32_t error;
    bool again;
    const char *cause, *remedy;
  } cases[] = {
      {CURLE_OK, 404, KINORA_ERROR_NOT_FOUND, false, "HTTP 404", "check the address"},
      {CURLE_OK, 410, KINORA_ERROR_NOT_FOUND, false, "HTTP 410", "check the address"},
      {CURLE_OK, 401, KINORA_ERROR_INVALID, false, "HTTP 401", "~/.netrc"},
      {CURLE_OK, 403, KINORA_ERROR_INVALID, false, "HTTP 403", "access is denied"},
      {CURLE_OK, 400, KINORA_ERROR_FAILED, false, "HTTP 400", "check the address"},
      {CURLE_OK, 429, KINORA_ERROR_IO, true, "HTTP 429", "check the network"},
      {CURLE_OK, 500, KINORA_ERROR_IO, true, "HTTP 500", "check the network"},
      {CURLE_OK, 503, KINORA_ERROR_IO, true, "HTTP 503", "check the network"},
      {CURLE_OK, 206, KINORA_ERROR_IO, false, "another range than it was asked for", "check the network"},
      {CURLE_PARTIAL_FILE, 206, KINORA_ERROR_IO, true, "the words of libcurl", "check the network"},
      {CURLE_OPERATION_TIMEDOUT, 206, KINORA_ERROR_IO, true, "the words of libcurl", "check the network"},
      {CURLE_COULDNT_CONNECT, 0, KINORA_ERROR_IO, true, "the words of libcurl", "check the network"},
      {CURLE_UNSUPPORTED_PROTOCOL, 302, KINORA_ERROR_INVALID, false, "the words of libcurl", "https only"},
      {CURLE_TOO_MANY_REDIRECTS, 302, KINORA_ERROR_INVALID, false, "the words of libcurl", "without end"},
      {CURLE_PEER_FAILED_VERIFICATION, 0, KINORA_ERROR_INVALID, false, "the words of libcurl", "ca_file"}};
  for (const auto& c : cases) {
    ranged::HttpAnswer answer;
    answer.code = c.code;
    answer.status = c.status;
    answer.problem = "the words of libcurl";
    EXPECT_EQ(is_worth_repeating(answer), c.again) << c.status << " " << c.code;
    const Error e = failure("http://host/a.tar", answer, 3);
    EXPECT_EQ(e.code(), c.error) << e.what();
    EXPECT_THAT(e.what(), testing::AllOf(testing::StartsWith("http://host/a.tar: cannot be read: "),
                                         testing::HasSubstr(c.cause), testing::HasSubstr("(3 tries)"),
                                         testing::HasSubstr(c.remedy)));
  }
}

// A server that sends a byte now and then keeps no read alive.
TEST(Tries, BytesBelowTheLeastSpeedAreNoProgress) {
  ranged::Tries tries(2);
  ranged::HttpAnswer answer;
  answer.status = 206;
  answer.got = uint64_t{1} << 40;
  EXPECT_TRUE(tries.goes_on(answer));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // in which 20 bytes would do
  answer.got = 10;
  EXPECT_FALSE(tries.goes_on(answer));
  EXPECT_EQ(answer.code, CURLE_OPERATION_TIMEDOUT);
  EXPECT_THAT(answer.problem, testing::HasSubstr("fewer than 1000 bytes a second"));
}

}  // namespace
}  // namespace kinora::web
