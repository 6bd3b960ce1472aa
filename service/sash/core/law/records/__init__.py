"""The ground of the law: stored records of messages as columns, tool groups, reasons, costs, parameters."""
