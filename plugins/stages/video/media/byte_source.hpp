// The bytes of a video, from any storage, and the exception of the media layer.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <vector>

namespace kinora::video {

// The exception of the media layer. what() names the file (or option), the problem and the remedy: "a.mp4: no
// video stream (1 audio stream); give a file with video". Only constructors and functions of this folder
// throw it. An object that threw may only be destroyed, unless its comment says otherwise.
class MediaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Random-access bytes, from which every video and clip is read, so that the demuxer treats a local file, an
// object store and a block of memory alike. All media is read through this interface; no URL is ever opened.
//
// [any-thread] One source may serve several decoders at once.
struct ByteSource {
  virtual ~ByteSource() = default;

  // Total length in bytes; every call returns the same value.
  virtual int64_t size() = 0;

  // Copies up to n bytes at `offset` into `buffer` (the caller's, at least n bytes) and returns their number:
  // fewer than n only at the end, 0 at or past it. May throw; the decoder's caller receives the exception
  // unchanged.
  virtual int64_t read_at(int64_t offset, void* buffer, int64_t n) = 0;
};

// Bytes in memory: borrowed from an lvalue or span (they must outlive the source), or owned if a vector is
// moved in.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const uint8_t> borrowed) : bytes_(borrowed) {}
  explicit MemorySource(std::vector<uint8_t>&& owned) : owned_(std::move(owned)), bytes_(owned_) {}
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  int64_t size() override { return static_cast<int64_t>(bytes_.size()); }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override;

 private:
  std::vector<uint8_t> owned_;
  std::span<const uint8_t> bytes_;
};

// A local file, opened read-only for the lifetime of the source. MediaError if it cannot be opened or read.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  int64_t size() override { return size_; }
  int64_t read_at(int64_t offset, void* buffer, int64_t n) override;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

}  // namespace kinora::video
