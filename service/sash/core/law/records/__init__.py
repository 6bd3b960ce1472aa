"""The ground of the law: records of messages as columns, tool groups, reasons, costs, parameters."""
