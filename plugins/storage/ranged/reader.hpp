// An object of a server, open for random access.
//
// A reader that moves forward gets its bytes from windows that are fetched before they are needed. The longer
// it has moved forward without a jump, the more is fetched ahead: as many bytes as it has read so far, up to
// a quarter of `memory`, in windows of up to a sixteenth, each a request on its own connection. A jump
// fetches the requested bytes (at least 64 KiB) and nothing ahead. Two positions are followed at once, since
// the audio and video of a file may be stored apart. So a reader holds at most `memory` bytes (of 32
// MiB: 2 MiB a request, 8 MiB ahead), and reads of at least twice a window go directly to the caller's
// memory, in `parallel` requests at a time.
#pragma once
#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kinora/storage.hpp"

namespace kinora::ranged {

// One object. [any-thread] read().
class RangedObject {
 public:
  struct Start {
    uint64_t size = 0;  // of the object
    std::string first;  // the first bytes
  };
  virtual ~RangedObject() = default;
  // Called once, before read(). At most `most` bytes, in one request.
  virtual Start open(uint64_t most) = 0;
  // Bytes [offset, offset + size), which must exist; an object that was changed since open() is an error. Ends when
  // *stop becomes true.
  virtual void read(uint64_t offset, uint64_t size, char* to, const std::atomic<bool>* stop) = 0;
};

class RangedReader final : public StorageReader {
 public:
  // Opens the object. parallel: requests of one large read.
  RangedReader(std::unique_ptr<RangedObject> object, uint64_t memory, uint64_t parallel);
  RangedReader(const RangedReader&) = delete;
  RangedReader& operator=(const RangedReader&) = delete;
  ~RangedReader() override;
  uint64_t size() const override { return size_; }
  uint64_t read(uint64_t offset, void* to, uint64_t size) override;

 private:
  // Dropping the last reference ends the request and waits for it, so never do it under the lock.
  struct Window {
    uint64_t begin = 0, end = 0;
    std::vector<char> bytes;
    std::atomic<bool> stop{false};
    std::shared_future<void> ready;
    ~Window() { stop = true; }
  };
  using Windows = std::deque<std::shared_ptr<Window>>;
  // A position that is being read.
  struct Stream {
    Windows windows;    // adjacent, in order
    uint64_t next = 0;  // where the last read ended
    uint64_t run = 0;   // bytes read without a jump
    uint64_t last_use = 0;
  };
  // Called under the lock; windows that are no longer needed go to `dropped`.
  std::shared_ptr<Window> window_at(uint64_t offset, uint64_t size, Windows& dropped);
  std::shared_ptr<Window> go_on(Stream& stream, uint64_t offset, uint64_t size, Windows& dropped);
  std::shared_ptr<Window> jump(uint64_t offset, uint64_t size, Windows& dropped);
  void fetch_ahead(Stream& stream);
  void forget(const std::shared_ptr<Window>& window, Windows& dropped);

  std::shared_ptr<Window> fetch(uint64_t begin, uint64_t size);
  uint64_t some(uint64_t offset, char* to, uint64_t size);
  void straight(uint64_t offset, char* to, uint64_t size);

  std::unique_ptr<RangedObject> object_;
  uint64_t parallel_, size_ = 0, ahead_ = 0, largest_ = 0;
  std::mutex mutex_;
  uint64_t uses_ = 0;
  std::array<Stream, 2> streams_;
};

}  // namespace kinora::ranged
