// Samples sent between processes.
#include "host/workers/sample_message.hpp"

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "kinora/sample.hpp"
#include "tests/faults/workers/job.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;

// A video's frames, 40 MiB: on disk once, however often they are sent.
TEST(SampleMessage, WhatIsLargeGoesInAFileAndOnInTheSame) {
  runtime();
  const size_t size = 40 << 20;
  const auto piece_of_the_only = [](const Message& m) {
    EXPECT_EQ(m.shared.size(), 1u);
    struct stat s {};
    ::fstat(m.shared.at(0).get(), &s);
    char name[256] = {};
    [[maybe_unused]] const auto n =
        ::readlink(("/proc/self/fd/" + std::to_string(m.shared[0].get())).c_str(), name, sizeof name - 1);
    return std::tuple(s.st_ino, s.st_nlink, std::string(name));
  };
  Message first, second;
  {
    Sample s("k");
    s.set_tensor("frames", std::vector<uint8_t>(size, 5), {40, 1 << 20}, KINORA_DL_UINT, 8);
    put_sample(first, s);
  }
  const auto [inode, links, name] = piece_of_the_only(first);
  EXPECT_EQ(links, 0u);
  EXPECT_TRUE(name.starts_with(fs::temp_directory_path().string())) << name;
  const Sample taken = take_sample(first);
  first = {};
  put_sample(second, taken);
  EXPECT_EQ(std::get<0>(piece_of_the_only(second)), inode);
  const Sample again = take_sample(second);
  const auto* bytes = static_cast<const uint8_t*>(again.tensor("frames")->data);
  EXPECT_EQ(std::count(bytes, bytes + size, 5), static_cast<ptrdiff_t>(size));

  Message little;
  Sample s("k");
  s.set_tensor("frames", std::vector<uint8_t>(1 << 20, 5), {1 << 20}, KINORA_DL_UINT, 8);
  put_sample(little, s);
  EXPECT_TRUE(std::get<2>(piece_of_the_only(little)).starts_with("/memfd:"));
}

// A file written by a stage is sent unchanged.
TEST(SampleMessage, AFileThatAStageHasMappedIsNotCopied) {
  runtime();
  const size_t size = 33 << 20;
  std::string name = (fs::temp_directory_path() / "faulty-XXXXXX").string();
  const Descriptor file(::mkstemp(name.data()));
  ::unlink(name.c_str());
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
  auto* data =
      static_cast<uint8_t*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  data[size - 1] = 77;
  static int64_t shape[1];
  shape[0] = static_cast<int64_t>(size);
  kinora_dl_managed managed{};
  managed.major = 1;
  managed.tensor = {data, KINORA_DL_CPU, 0, 1, KINORA_DL_UINT, 8, 1, shape, nullptr, 0};
  Sample s("k");
  check(samples_api().set_tensor(s.get(), "frames", &managed));
  Message message;
  put_sample(message, s);
  struct stat sent {
  }, own{};
  ::fstat(message.shared.at(0).get(), &sent);
  ::fstat(file.get(), &own);
  EXPECT_EQ(sent.st_ino, own.st_ino);
  EXPECT_EQ(static_cast<const uint8_t*>(take_sample(message).tensor("frames")->data)[size - 1], 77);
  s.remove("frames");
  ::munmap(data, size);
}

// A worker is not trusted: its messages are checked before use.
TEST(SampleMessage, RefusesWhatDoesNotHoldWhatItSays) {
  runtime();
  Message message;
  Sample s("k");
  s.set("txt", "abc");
  s.set("mp4", std::vector<uint8_t>(100000, 1));
  put_sample(message, s);
  EXPECT_EQ(take_sample(message).text("mp4")->size(), 100000u);
  const auto refused = [&](const std::function<void(json&)>& change) {
    json kept = message.head;
    change(message.head["sample"]);
    std::string why = "accepted";
    try {
      take_sample(message);
    } catch (const Error& e) {
      why = e.what();
    }
    message.head = kept;
    return why;
  };
  EXPECT_EQ(refused([](json& h) { h["fields"][0]["size"] = 4; }),
            "the other side sent a field that is not in its message");
  EXPECT_EQ(refused([](json& h) { h["fields"][0]["at"] = 1ull << 63; }),
            "the other side sent a field that is not in its message");
  EXPECT_EQ(refused([](json& h) { h["fields"][1]["size"] = 100001; }),
            "the other side sent memory that is not sealed or too short");
  EXPECT_EQ(refused([](json& h) { h["fields"][1]["piece"] = 1; }),
            "the other side sent a sample without its memory");
  EXPECT_NE(refused([](json& h) { h.erase("key"); }).find("the other side sent a malformed sample: "),
            std::string::npos);
  for (const char* name : {"", "/etc/x", "../x", "a/../../x"}) {
    EXPECT_EQ(refused([&](json& h) { h["key"] = name; }),
              "the other side sent a name that is not a valid file name")
        << name;
    EXPECT_EQ(refused([&](json& h) { h["fields"][0]["name"] = name; }),
              "the other side sent a name that is not a valid file name")
        << name;
  }
  const json tensor{{"name", "t"}, {"code", 1}, {"bits", 8}, {"shape", {3}}, {"size", 3}, {"at", 0}};
  EXPECT_EQ(refused([&](json& h) { h["tensors"] = {tensor}; }), "accepted");
  for (const auto& [member, value] : {std::pair{"bits", json(4)},
                                      {"bits", json(16)},
                                      {"shape", json({1ll << 62, 4})},
                                      {"shape", json({-3})}})
    EXPECT_NE(refused([&](json& h) { h["tensors"] = {tensor}, h["tensors"][0][member] = value; }), "accepted")
        << member << value;
  // Strides are computed beside a dimension of size 0 too.
  EXPECT_EQ(refused([&](json& h) {
              h["tensors"] = {tensor};
              h["tensors"][0].update({{"size", 0}, {"shape", {0, 1ll << 62, 4}}});
            }),
            "the other side sent a tensor of an impossible shape");
}

// The parser would recurse once per level.
TEST(Channel, RefusesAHeadThatIsNestedWithoutEnd) {
  for (const uint32_t depth : {1u, 10u, 60000u}) {
    auto [ours, theirs] = socket_pair();
    std::string text(depth, '\x91');  // arrays of one
    text += "\x01";
    std::string packet{'\x81', '\xa1', 'a'};  // {"a": [[[1]]]}
    packet += text;
    const auto size = static_cast<uint32_t>(packet.size());
    packet.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
    ASSERT_EQ(::send(theirs.get(), packet.data(), packet.size(), 0), static_cast<ssize_t>(packet.size()));
    Message message;
    const Channel channel(std::move(ours));
    if (depth < 16)
      EXPECT_EQ(channel.receive(message, 1000), Channel::Got::message);
    else
      EXPECT_THROW(channel.receive(message, 1000), Error);
  }
}

}  // namespace
}  // namespace kinora::core
