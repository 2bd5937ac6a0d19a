// Small files of the cache: lines of text that come back as they were written, or not at all.
#ifndef QRT_AOT_RECORD_H_
#define QRT_AOT_RECORD_H_

#include <optional>
#include <string>
#include <vector>

namespace qrt::aot {

// Lines without line ends in them; others make the record one that is not written. What does not go well
// gives nothing, false: whatever a record says can be found out again.
using RecordLines = std::vector<std::string>;

// The lines of a record of `kind` (a word: another kind's is none). A damaged one is none. `unread` (may be
// null): whether there may be a good one that could not be read (too many open files, say).
std::optional<RecordLines> ReadRecord(const std::string& path, const std::string& kind,
                                      bool* unread = nullptr);

// Appears under its name whole or not at all, whoever else reads or writes it.
bool WriteRecord(const std::string& path, const std::string& kind, const RecordLines& lines);

}  // namespace qrt::aot

#endif  // QRT_AOT_RECORD_H_
