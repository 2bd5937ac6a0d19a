// Which programs a model gets: functions that run one after the other on the same rows, and for how many
// rows.
#ifndef QCC_PASSES_PLAN_PROGRAMKINDS_H_
#define QCC_PASSES_PLAN_PROGRAMKINDS_H_

#include <string>

#include "passes/contract/EntryPoint.h"

namespace qcc::passes {

struct ProgramKind {
  std::string name;  // for people: programs are called NAME_ROWS
  llvm::SmallVector<EntryPoint, 2> functions;
  llvm::SmallVector<int64_t> rows;  // rising

  // The function whose rows lie at the begin of the arena when it has run, or null. A program of this kind
  // leaves them, unless a function behind it puts others there.
  const EntryPoint* leaves() const;
  bool overwritesRows() const;
  // Whether the first function makes the rows that the second is given.
  bool prepares() const { return functions.size() > 1 && functions.front().preparesRowsOf(functions[1]); }
};

// Rows per program, by what the program is good for.
struct Buckets {
  llvm::SmallVector<int64_t> token;  // a token is drawn from its logits: one or a few rows
  llvm::SmallVector<int64_t> many;   // it gives nothing and only has to be fast
  llvm::SmallVector<int64_t> after;  // rows of another program -> logits
};

// A function whose rows others take gets three kinds: followed by each of them (`token`), alone (`many`), and
// each of them alone (`after`). One that gives logits and leaves rows gets two: whole (`token`), and without
// what only its logits need (`many`). Any other function gets one: `token` if it gives logits, else `many`.
//
// Where a function prepares the rows that another is given, it has no programs of its own: it begins those of
// the other. Where that leaves rows of the same kind it can go on from its own: it gets one kind more (the
// fewest rows of `token`), which takes those that it left as another program's.
llvm::SmallVector<ProgramKind> programKinds(llvm::ArrayRef<EntryPoint> entries, const Buckets& buckets);

}  // namespace qcc::passes

#endif  // QCC_PASSES_PLAN_PROGRAMKINDS_H_
