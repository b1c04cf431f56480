//! [`Layout`]: the sizes and addresses of TPC-B's tables.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};

use super::{TELLERS_PER_BRANCH, Transaction};

/// Bytes in a row of an account, a teller or a branch.
const ROW_BYTES: u64 = 128;
pub(super) const ROWS_PER_PAGE: u64 = PAGE_BYTES as u64 / ROW_BYTES;
pub(super) const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;
/// The pages of a branch's 100,000 accounts (TPC-B standard, clause 4.2).
const ACCOUNT_PAGES_PER_BRANCH_MAX: u64 = 100_000 / ROWS_PER_PAGE;
/// With one branch, no account could be remote.
const BRANCHES_MIN: u64 = 2;
/// The history takes one page in this many, and the pages that are left.
const HISTORY_SHARE: u64 = 16;

/// The tables, in the order of their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Branch,
    Teller,
    Account,
    History,
}

/// The sizes of all tables.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub branches: u64,
    account_pages_per_branch: u64,
    history_pages: u64,
}

impl Layout {
    /// The least number of pages: one of branches, one of tellers, one of accounts for each of two
    /// branches, one of history.
    pub(super) const MIN_PAGES: u64 = 3 + BRANCHES_MIN;

    /// The tables that fill `pages` pages, at least [`MIN_PAGES`](Layout::MIN_PAGES).
    pub(super) fn new(pages: u64) -> Layout {
        let history_pages = (pages / HISTORY_SHARE).max(1);
        let others = pages - history_pages;
        // One page more for every branch than its accounts take makes room for the other two
        // tables.
        let branches = (others / (ACCOUNT_PAGES_PER_BRANCH_MAX + 1)).max(BRANCHES_MIN);
        let small = branch_and_teller_pages(branches);
        let account_pages_per_branch =
            ((others - small) / branches).min(ACCOUNT_PAGES_PER_BRANCH_MAX);
        let history_pages = pages - small - branches * account_pages_per_branch;
        Layout { branches, account_pages_per_branch, history_pages }
    }

    pub(super) fn pages(&self) -> u64 {
        self.first_page(Table::History).0 + self.history_pages
    }

    pub(super) fn accounts_per_branch(&self) -> u64 {
        self.account_pages_per_branch * ROWS_PER_PAGE
    }

    /// The number of rows of a table, or of places of the history.
    pub(super) fn rows(&self, table: Table) -> u64 {
        match table {
            Table::Branch => self.branches,
            Table::Teller => self.branches * TELLERS_PER_BRANCH,
            Table::Account => self.branches * self.accounts_per_branch(),
            Table::History => self.history_pages * LINES_PER_PAGE,
        }
    }

    /// The address of row `row` of a table: its first line, with its latch.
    #[inline]
    pub(super) fn address(&self, table: Table, row: u64) -> Addr {
        let bytes = if table == Table::History { LINE_BYTES as u64 } else { ROW_BYTES };
        self.first_page(table).start() + row * bytes
    }

    /// The place of the history that a transaction writes.
    #[inline]
    pub(super) fn place(&self, transaction: &Transaction) -> u64 {
        transaction.number % self.rows(Table::History)
    }

    /// The table of `page`, and the number of the page in it.
    pub(super) fn table_of(&self, page: PageId) -> (Table, u64) {
        let tables = [Table::History, Table::Account, Table::Teller];
        let table = tables.into_iter().find(|&table| page >= self.first_page(table));
        let table = table.unwrap_or(Table::Branch);
        (table, page.0 - self.first_page(table).0)
    }

    #[inline]
    fn first_page(&self, table: Table) -> PageId {
        PageId(match table {
            Table::Branch => 0,
            Table::Teller => self.branches.div_ceil(ROWS_PER_PAGE),
            Table::Account => branch_and_teller_pages(self.branches),
            Table::History => {
                branch_and_teller_pages(self.branches)
                    + self.branches * self.account_pages_per_branch
            }
        })
    }
}

fn branch_and_teller_pages(branches: u64) -> u64 {
    branches.div_ceil(ROWS_PER_PAGE) + (branches * TELLERS_PER_BRANCH).div_ceil(ROWS_PER_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fill_a_dataset_of_any_size() {
        let sizes = (5..300).chain([6_000, 6_600, 6_700, 10_000, 262_144, 1 << 26, 1 << 34]);
        for pages in sizes {
            let layout = Layout::new(pages);
            assert_eq!(layout.pages(), pages);
            assert!(layout.branches >= 2 && layout.accounts_per_branch() >= 32);
            assert!(layout.history_pages >= (pages / 16).max(1));
            if pages >= 6_700 {
                assert_eq!(layout.accounts_per_branch(), 100_000, "{pages} pages");
            }
        }
    }

    #[test]
    fn nearly_all_of_a_large_dataset_is_accounts() {
        for gib in [1, 16, 256] {
            let pages = gib << 18;
            let layout = Layout::new(pages);
            let accounts = layout.rows(Table::Account) / ROWS_PER_PAGE;
            assert!(accounts * 100 > pages * 92, "{accounts} of {pages}");
        }
    }

    #[test]
    fn pages_belong_to_the_table_whose_rows_they_hold() {
        let layout = Layout::new(400);
        let mut seen = 0;
        for table in [Table::Branch, Table::Teller, Table::Account, Table::History] {
            for row in 0..layout.rows(table) {
                let page = layout.address(table, row).page();
                let (found, nth) = layout.table_of(page);
                assert_eq!((found, layout.first_page(table).0 + nth), (table, page.0));
                assert!(page.0 == seen || page.0 == seen + 1);
                seen = page.0;
            }
        }
        assert_eq!(seen + 1, layout.pages());
    }
}
