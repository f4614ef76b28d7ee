#include "plugins/storage/s3/credentials.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"

namespace kinora::s3 {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "kinora-s3-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (const char* n : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                          "AWS_DEFAULT_PROFILE"})
      ::unsetenv(n);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", path("credentials").c_str(), 1);
    ::setenv("AWS_CONFIG_FILE", path("config").c_str(), 1);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name + ".new")) << text;
    fs::rename(path(name + ".new"), path(name));
  }
  static std::string error_of(CredentialSource& from) {
    try {
      from.get();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
      return e.what();
    }
    return "no error";
  }
  fs::path folder_;
};

constexpr const char* kConfig = R"(# settings
[default]
region = eu-central-1
s3 =
  max_concurrent_requests = 20
  endpoint_url = http://nested.example.org
output=json
; another
[profile work]
endpoint_url = https://store.example.org
aws_access_key_id = WORKKEY
aws_secret_access_key = a=b+c/==
[profile sso]
sso_session = corporate
)";

TEST_F(Files, ProfilesAreReadAsAwsWritesThem) {
  write("config", kConfig);
  write("credentials",
        "[default]\naws_access_key_id=KEY\r\naws_secret_access_key=SECRET\naws_session_token = T\n");
  CredentialSource usual("");
  EXPECT_EQ(usual.get().key, "KEY");
  EXPECT_EQ(usual.get().secret, "SECRET");
  EXPECT_EQ(usual.get().token, "T");
  EXPECT_EQ(usual.setting("region"), "eu-central-1");
  EXPECT_EQ(usual.setting("endpoint_url"), "");
  CredentialSource work("work");
  EXPECT_EQ(work.get().key, "WORKKEY");
  EXPECT_EQ(work.get().secret, "a=b+c/==");
  EXPECT_EQ(work.setting("endpoint_url"), "https://store.example.org");
  ::setenv("AWS_PROFILE", "work", 1);
  EXPECT_EQ(CredentialSource("").get().key, "WORKKEY");
}

TEST_F(Files, TheEnvironmentGoesFirstUnlessAProfileIsNamed) {
  write("credentials", "[work]\naws_access_key_id=FILEKEY\naws_secret_access_key=S\n");
  ::setenv("AWS_ACCESS_KEY_ID", "ENVKEY", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "E", 1);
  ::setenv("AWS_SESSION_TOKEN", "ET", 1);
  EXPECT_EQ(CredentialSource("").get().key, "ENVKEY");
  EXPECT_EQ(CredentialSource("").get().token, "ET");
  EXPECT_EQ(CredentialSource("work").get().key, "FILEKEY");
}

TEST_F(Files, AChangedFileIsReadAnew) {
  write("credentials", "[default]\naws_access_key_id=ONE\naws_secret_access_key=S\n");
  CredentialSource source("");
  const Credentials first = source.get();
  EXPECT_FALSE(source.renewed_since(first));
  write("credentials", "[default]\naws_access_key_id=TWO\naws_secret_access_key=S\n");
  EXPECT_EQ(source.get().key, "TWO");
  EXPECT_TRUE(source.renewed_since(first));
}

TEST_F(Files, AProcessIsAskedAgainWhenItsCredentialsEnd) {
  const std::string count = path("count");
  const auto process = [&](const std::string& expiration) {
    write("config", "[default]\ncredential_process = echo x >> " + count +
                        "; echo '{\"Version\": 1, \"AccessKeyId\": \"P\", \"SecretAccessKey\": \"S\", "
                        "\"Expiration\": \"" +
                        expiration + "\"}'\n");
  };
  process("2999-01-01T00:00:00Z");
  CredentialSource lasting("");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(lasting.get().key, "P");
  EXPECT_EQ(fs::file_size(count), 2u);
  process("2001-01-01T00:00:00Z");
  CredentialSource ending("");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ending.get().key, "P");
  EXPECT_EQ(fs::file_size(count), 8u);
}

TEST_F(Files, WhatIsMissingIsSaidWithoutAnySecret) {
  CredentialSource none("");
  EXPECT_THAT(error_of(none),
              testing::AllOf(testing::HasSubstr("AWS_ACCESS_KEY_ID"), testing::HasSubstr(path("credentials")),
                             testing::HasSubstr("anonymous = true")));
  write("config", std::string(kConfig) +
                      "[profile bad]\ncredential_process = false --secret=1234\n[profile "
                      "half]\naws_secret_access_key=HUSH\n");
  CredentialSource sso("sso"), bad("bad"), half("half");
  EXPECT_THAT(error_of(sso),
              testing::HasSubstr("credential_process = aws configure export-credentials --profile sso"));
  EXPECT_THAT(error_of(bad),
              testing::AllOf(testing::HasSubstr("'false'"), testing::Not(testing::HasSubstr("1234"))));
  EXPECT_THAT(error_of(half), testing::Not(testing::HasSubstr("HUSH")));
}

}  // namespace
}  // namespace kinora::s3
