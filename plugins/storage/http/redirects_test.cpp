#include "plugins/storage/ranged/redirects.hpp"

#include <string>
#include <unistd.h>

#include <arpa/inet.h>
#include <curl/curl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace kinora::ranged {
namespace {

TEST(Redirects, AddressesInsideNetworksAreNotPublic) {
  for (const char* inside : {"127.0.0.1",
                             "10.1.2.3",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.168.1.1",
                             "169.254.169.254",
                             "100.64.0.1",
                             "0.0.0.0",
                             "224.0.0.1",
                             "255.255.255.255",
                             "198.18.0.1",
                             "203.0.113.9",
                             "::1",
                             "::",
                             "fe80::1%eth0",
                             "fd00::1",
                             "ff02::1",
                             "::ffff:10.0.0.1",
                             "64:ff9b::7f00:1",
                             "2001:db8::1",
                             "2002:7f00:1::",
                             "",
                             "host",
                             "1.2.3"})
    EXPECT_FALSE(is_public(inside)) << inside;
  for (const char* outside : {"1.1.1.1", "172.15.255.255", "172.32.0.1", "100.128.0.1", "192.0.1.1",
                              "223.255.255.255", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"})
    EXPECT_TRUE(is_public(outside)) << outside;
}

TEST(Redirects, LeadFromOutsideToOutsideOnly) {
  Redirects outside("https://data.example/s.tar");
  EXPECT_TRUE(outside.may_connect("1.1.1.1", "https://data.example/s.tar"));
  EXPECT_TRUE(outside.may_connect("2606:4700::1111", "https://store.example/s.tar"));
  EXPECT_FALSE(outside.may_connect("169.254.169.254", "http://169.254.169.254/latest"));
  EXPECT_NE(outside.problem().find("redirects to http://169.254.169.254/latest at 169.254.169.254"),
            std::string::npos);
  Redirects inside("http://nas/s.tar");
  EXPECT_TRUE(inside.may_connect("10.0.0.2", "http://nas/s.tar"));
  EXPECT_TRUE(inside.may_connect("10.0.0.3", "http://nas2/s.tar"));
}

// No server answers at the socket: the guard stops the request once the connection is made.
TEST(Redirects, AreStoppedBeforeTheRequestIsSent) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  const std::string inside = "http://127.0.0.1:" + std::to_string(ntohs(at.sin_port)) + "/latest";
  Redirects outside("http://data.example/s.tar");
  EXPECT_TRUE(outside.may_connect("1.1.1.1", "http://data.example/s.tar"));
  CURL* handle = curl_easy_init();
  curl_easy_setopt(handle, CURLOPT_URL, inside.c_str());
  curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(handle, CURLOPT_TIMEOUT, 20L);
  outside.guard(handle, inside);
  EXPECT_EQ(curl_easy_perform(handle), CURLE_ABORTED_BY_CALLBACK);
  EXPECT_NE(outside.problem().find("redirects to " + inside + " at 127.0.0.1"), std::string::npos);
  curl_easy_cleanup(handle);
  close(listener);
}

TEST(Redirects, KeepTheirEncryptionAndStayInTheWeb) {
  const Redirects safe("https://data.example/s.tar"), plain("http://data.example/s.tar");
  EXPECT_EQ(safe.refusal("https://other.example/x"), "");
  EXPECT_EQ(plain.refusal("https://other.example/x"), "");
  EXPECT_NE(safe.refusal("http://data.example/s.tar").find("not encrypted"), std::string::npos);
  for (const char* url : {"file:///etc/passwd", "ftp://data.example/x", "gopher://x", ""})
    EXPECT_NE(plain.refusal(url), "") << url;
}

}  // namespace
}  // namespace kinora::ranged
