#include "plugins/storage/s3/answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "plugins/storage/ranged/tries.hpp"
#include "plugins/storage/s3/failure.hpp"

namespace kinora::s3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// As in docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html, shortened.
constexpr const char* kPage = R"(<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name><Prefix>films/</Prefix><KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter>
  <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
  <NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>
  <Contents><Key>films/a+b%2Bc+%C3%A9.mp4</Key><LastModified>2009-10-12T17:50:30.250Z</LastModified>
    <ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size>
    <StorageClass>STANDARD</StorageClass></Contents>
  <CommonPrefixes><Prefix>films/old/</Prefix></CommonPrefixes>
</ListBucketResult>)";

Error error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  return {KINORA_OK, "no error"};
}

TEST(Answers, AListIsRead) {
  const Listing page = read_listing(kPage);
  ASSERT_EQ(page.objects.size(), 1u);
  EXPECT_EQ(page.objects[0].key, "films/a b+c \xC3\xA9.mp4");
  EXPECT_EQ(page.objects[0].size, 434234u);
  EXPECT_EQ(page.objects[0].modified, 1255369830'250'000'000);  // date -d 2009-10-12T17:50:30Z +%s
  EXPECT_THAT(page.prefixes, testing::ElementsAre("films/old/"));
  EXPECT_EQ(page.next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
}

TEST(Answers, WhatIsNotOneIsAnError) {
  for (const char* bad :
       {"", "no XML", "<html><body>Welcome</body></html>", "<ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>9223372036854775808</Size></Contents></"
        "ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"})
    EXPECT_EQ(error_of([&] { read_listing(bad); }).code(), KINORA_ERROR_DATA) << bad;
  EXPECT_EQ(error_of([] { read_upload_id("<InitiateMultipartUploadResult/>"); }).code(), KINORA_ERROR_DATA);
  EXPECT_EQ(error_of([] { read_completed("<Error><Code>InternalError</Code></Error>"); }).code(),
            KINORA_ERROR_DATA);
  EXPECT_EQ(read_error("<a/>").code, "");
}

// Custom entities are not expanded: neither a file of this machine nor a "billion laughs".
TEST(Answers, EntitiesOfADocumentAreNothing) {
  const auto said = read_error(
      R"(<?xml version="1.0"?><!DOCTYPE e [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y "&x;&x;">]>)"
      "<Error><Code>A</Code><Message>&x;&y;</Message></Error>");
  EXPECT_EQ(said.code, "A");
  EXPECT_EQ(said.message, "&x;&y;");
}

TEST(Answers, ACompletionNamesItsPartsInOrder) {
  EXPECT_EQ(completion_body({"\"a\"", "<b>"}),
            "<CompleteMultipartUpload "
            "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Part><PartNumber>1</PartNumber>"
            "<ETag>\"a\"</ETag></Part><Part><PartNumber>2</PartNumber><ETag>&lt;b&gt;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

TEST(Answers, TimesAreReadOrNothing) {
  EXPECT_EQ(nanoseconds_of("1970-01-01T00:00:01Z"), 1'000'000'000);
  EXPECT_EQ(nanoseconds_of("1970-01-01T00:00:01.123456789123Z"), 1'123'456'789);
  for (const char* bad : {"", "yesterday", "9999999-01-01T00:00:00Z"})
    EXPECT_EQ(nanoseconds_of(bad), 0) << bad;
}

HttpAnswer answer(long status, const std::string& code, const std::string& message = "") {
  HttpAnswer a;
  a.status = status;
  a.body =
      "<Error><Code>" + code + "</Code><Message>" + message + "</Message><Region>eu-west-3</Region></Error>";
  return a;
}

struct Said {
  long status;
  const char* code;
  Verdict verdict;
  int32_t error;
  const char* words;
};

TEST(Failures, AreJudgedAndSaidWithARemedy) {
  const Said cases[] = {
      {404, "NoSuchKey", Verdict::final, KINORA_ERROR_NOT_FOUND, "no such object"},
      {404, "NoSuchBucket", Verdict::final, KINORA_ERROR_NOT_FOUND, "no such bucket"},
      {403, "AccessDenied", Verdict::final, KINORA_ERROR_INVALID, "access is denied to the environment"},
      {403, "RequestTimeTooSkewed", Verdict::final, KINORA_ERROR_INVALID, "set the clock"},
      {403, "SignatureDoesNotMatch", Verdict::new_credentials, KINORA_ERROR_INVALID, "secret key"},
      {400, "ExpiredToken", Verdict::new_credentials, KINORA_ERROR_INVALID, "sign in again"},
      {400, "AuthorizationHeaderMalformed", Verdict::final, KINORA_ERROR_INVALID, "region = \"eu-west-3\""},
      {301, "PermanentRedirect", Verdict::final, KINORA_ERROR_INVALID, "another region, eu-west-3"},
      {400, "RequestTimeout", Verdict::again, KINORA_ERROR_IO, "network"},
      {400, "BadDigest", Verdict::again, KINORA_ERROR_IO, "run it again"},
      {500, "InternalError", Verdict::again, KINORA_ERROR_IO, "run it again"},
      {503, "SlowDown", Verdict::again, KINORA_ERROR_IO, "run it again"},
      {507, "XMinioStorageFull", Verdict::final, KINORA_ERROR_NO_MEMORY, "no room"},
      {412, "PreconditionFailed", Verdict::final, KINORA_ERROR_DATA, "changed while it was read"},
      {501, "NotImplemented", Verdict::final, KINORA_ERROR_FAILED, "check the endpoint"}};
  const Credentials keys{"AKIDEXAMPLE", "topsecret", "sessiontoken", "the environment", 0};
  for (const Said& c : cases) {
    const auto a = answer(c.status, c.code);
    const auto said = read_error(a.body);
    EXPECT_EQ(judge(a, said), c.verdict) << c.code;
    const Error e = failure("s3://b/k: cannot be read", a, said, &keys, "us-east-1", 3);
    EXPECT_EQ(e.code(), c.error) << c.code;
    EXPECT_THAT(e.what(), AllOf(HasSubstr("s3://b/k: cannot be read: HTTP"), HasSubstr(c.code),
                                HasSubstr("(3 tries)"), HasSubstr(c.words)));
  }
}

TEST(Failures, OfAServerThatIsNotThereNameWhereItsAddressStands) {
  HttpAnswer a;
  a.code = CURLE_COULDNT_CONNECT;
  a.problem = "Failed to connect to 127.0.0.1 port 9";
  const Error e = failure("s3://b: cannot be listed", a, {}, nullptr, "us-east-1", 9);
  EXPECT_EQ(e.code(), KINORA_ERROR_IO);
  EXPECT_THAT(e.what(),
              AllOf(HasSubstr("s3://b: cannot be listed: Failed to connect to 127.0.0.1 port 9 (9 tries)"),
                    HasSubstr("endpoint in [storage.s3]"), HasSubstr("AWS_ENDPOINT_URL_S3")));
  a.code = CURLE_OPERATION_TIMEDOUT;
  a.status = 200;
  EXPECT_FALSE(is_nobody(a)) << "it began to answer";
}

TEST(Failures, RepeatNoSecretThatAServerSays) {
  const Credentials keys{"AKIDEXAMPLE", "topsecret", "sessiontoken", "the environment", 0};
  const auto a = answer(403, "AccessDenied", "AKIDEXAMPLE with topsecret and sessiontoken may not topsecret");
  const Error e = failure("s3://b/k: cannot be read", a, read_error(a.body), &keys, "r", 1);
  EXPECT_THAT(e.what(), AllOf(Not(HasSubstr("AKID")), Not(HasSubstr("topsecret")),
                              Not(HasSubstr("sessiontoken")), HasSubstr("*** with *** and *** may not ***")));
}

}  // namespace
}  // namespace kinora::s3
